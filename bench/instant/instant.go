// Package instant is a core that approves every payment and knows every account,
// at once, and keeps nothing. The benches use it where the simulated core would
// be measured too: corebank's journal makes each debit durable, on the disk that
// the ledger needs, which takes a lone payment longer than all the rest of it.
package instant

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// idAt is where the transaction ID stands, in a request as in an answer.
const idAt, idEnd = 4, 4 + tranid.Length

// Balance is what every account has, in won.
const Balance = 10_000_000

// Serve answers requests until ctx ends, and returns when it has left every
// connection. It closes the listener.
func Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("accept a connection: %w", err)
		}
		end := context.AfterFunc(ctx, func() { _ = conn.Close() })
		conns.Go(func() {
			defer end()
			answer(conn)
		})
	}
}

// answer answers each request, until the connection ends or something comes that
// is none.
func answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	answers, err := templates()
	if err != nil {
		return
	}
	request := make([]byte, telegram.RequestLength)
	for {
		if _, err := io.ReadFull(conn, request); err != nil {
			return
		}
		reply, ok := answers[telegram.MTI(request)]
		if !ok {
			return
		}
		copy(reply[idAt:idEnd], request[idAt:idEnd])
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// templates are the answers by the type of their request. Only the ID is
// missing.
func templates() (map[string][]byte, error) {
	date, err := tranid.ParseDate("2026-01-01")
	if err != nil {
		return nil, err
	}
	id, done := tranid.New(date, 0), frame.Text{Value: "정상"}
	payment, err := telegram.PaymentAnswer{TranID: id, ResponseCode: "0000", Message: done, ApprovalNo: 1}.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	balance, err := telegram.BalanceAnswer{TranID: id, ResponseCode: "0000", Message: done, Balance: Balance}.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{telegram.PaymentRequestMTI: payment, telegram.BalanceRequestMTI: balance}, nil
}
