package edge_test

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/bench/edge"
	"github.com/gwanmun/gwanmun/bench/instant"
	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial is the way to a core that answers as serve does.
func dial(t *testing.T, serve func(ctx context.Context, l net.Listener) error) *edge.Core {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, listener) }()
	core := edge.Dial(listener.Addr().String())
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := core.Close(); err != nil {
			t.Error(err)
		}
	})
	return core
}

func number(t *testing.T) account.Number {
	t.Helper()
	n, err := account.Parse("12345678901234")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCore_AgainstTheInstantOne(t *testing.T) {
	core := dial(t, instant.Serve)
	for range 2 { // on a new connection and on a used one
		id := core.NextID()
		paid, err := core.Pay(t.Context(), telegram.PaymentRequest{TranID: id, Account: number(t), Amount: 1000})
		if err != nil || paid.TranID != id || paid.ResponseCode != "0000" || paid.ApprovalNo == 0 {
			t.Errorf("%+v, error %v", paid, err)
		}
		id = core.NextID()
		balance, err := core.Balance(t.Context(), id, number(t))
		if err != nil || balance.TranID != id || balance.ResponseCode != "0000" || balance.Balance != instant.Balance {
			t.Errorf("%+v, error %v", balance, err)
		}
	}
}

func TestCore_AnswerToAnotherRequestIsAnError(t *testing.T) {
	core := dial(t, func(ctx context.Context, l net.Listener) error {
		stop := context.AfterFunc(ctx, func() { _ = l.Close() })
		defer stop()
		for {
			conn, err := l.Accept()
			if err != nil {
				return nil
			}
			if _, err := conn.Read(make([]byte, telegram.RequestLength)); err == nil {
				_, _ = conn.Write(otherAnswer())
			}
			_ = conn.Close()
		}
	})
	m := telegram.PaymentRequest{TranID: core.NextID(), Account: number(t), Amount: 1000}
	if answer, err := core.Pay(t.Context(), m); err == nil {
		t.Errorf("%+v", answer)
	}
	if answer, err := core.Balance(t.Context(), core.NextID(), number(t)); err == nil {
		t.Errorf("%+v", answer)
	}
}

// otherAnswer approves a payment that nobody asked for.
func otherAnswer() []byte {
	b, err := telegram.PaymentAnswer{TranID: "GWMNU20260101000000000", ResponseCode: "0000"}.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return b
}

func TestServe_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := edge.Serve(ctx, "127.0.0.1:0", discard, nothing); err != nil {
		t.Error(err)
	}
}
