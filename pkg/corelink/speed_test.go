package corelink_test

import (
	"context"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// What an exchange costs on a connection that is kept, kernel and core
// included. `make bench-link` compares it with bare sockets.
func BenchmarkExchange(b *testing.B) {
	kept, stop := context.WithCancel(context.Background())
	defer stop()
	for name, ctx := range map[string]context.Context{"endless": context.Background(), "endable": kept} {
		b.Run(name, func(b *testing.B) {
			h := serve(b, steady)
			link := newLink(b, keeping(h.addr), dialer())
			call := corelink.Call{
				Tx: corelink.TxPayment, Frame: request(b, paymentID), AnswerLength: telegram.AnswerLength,
				Check: func([]byte) error { return nil },
			}
			b.ReportAllocs()
			for b.Loop() {
				call.Deadline = time.Now().Add(time.Minute)
				if res := link.Exchange(ctx, call); !res.Answered() {
					b.Fatal(res.Err)
				}
			}
		})
	}
}
