package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// The settings that the product starts with.
const (
	deadline    = 5 * time.Second
	readTimeout = 3 * time.Second
	poolSize    = 16
)

var errOtherID = errors.New("answer carries another transaction ID")

// Core is pooled frames to the core: the product's own codec and connections, so
// that a comparison is not about those. It is safe for concurrent use.
type Core struct {
	link *corelink.Link
	next atomic.Int64
}

// Dial returns the way to a core. It connects when it is first used.
func Dial(addr string) *Core {
	c := &Core{link: corelink.New(corelink.Options{
		Flags: corelink.Flags{
			CoreAddr: []string{addr}, ReadTimeout: readTimeout, ConnectTimeout: 2 * time.Second,
			PoolSize: poolSize, PoolWait: deadline, PoolIdleTTL: 30 * time.Second,
		},
		Name: "core", Dial: (&net.Dialer{}).DialContext, Now: time.Now,
		Metrics: corelink.NewMetrics(prometheus.NewRegistry()),
	})}
	// Ten for each millisecond of the day, so that a restart gives none again.
	now := time.Now()
	c.next.Store(now.Sub(tranid.DateOf(now).Start()).Milliseconds() * 10)
	return c
}

// Close ends the connections that are idle.
func (c *Core) Close() error { return c.link.Close() }

// NextID is a transaction ID that this process did not give out before.
func (c *Core) NextID() tranid.ID {
	return tranid.New(tranid.DateOf(time.Now()), c.next.Add(1)%(tranid.MaxNumber+1))
}

// Pay sends a payment, once. With an error nothing is known of it.
func (c *Core) Pay(ctx context.Context, m telegram.PaymentRequest) (telegram.PaymentAnswer, error) {
	request, err := m.AppendTo(make([]byte, 0, telegram.RequestLength))
	if err != nil {
		return telegram.PaymentAnswer{}, fmt.Errorf("encode payment: %w", err)
	}
	var answer telegram.PaymentAnswer
	res := c.link.Exchange(ctx, corelink.Call{
		Tx: corelink.TxPayment, Kind: corelink.Mutation, Frame: request, AnswerLength: telegram.AnswerLength,
		Deadline: time.Now().Add(deadline),
		Check: func(b []byte) (err error) {
			if answer, err = telegram.ParsePaymentAnswer(b); err == nil && answer.TranID != m.TranID {
				err = errOtherID
			}
			return err
		},
	})
	if res.Err != nil {
		return telegram.PaymentAnswer{}, fmt.Errorf("pay %s: %w", m.TranID, res.Err)
	}
	return answer, nil
}

// Balance asks for a balance.
func (c *Core) Balance(ctx context.Context, id tranid.ID, number account.Number) (telegram.BalanceAnswer, error) {
	request, err := telegram.BalanceRequest{TranID: id, Account: number}.AppendTo(make([]byte, 0, telegram.RequestLength))
	if err != nil {
		return telegram.BalanceAnswer{}, fmt.Errorf("encode inquiry: %w", err)
	}
	var answer telegram.BalanceAnswer
	res := c.link.Exchange(ctx, corelink.Call{
		Tx: corelink.TxBalance, Kind: corelink.Inquiry, Frame: request, AnswerLength: telegram.AnswerLength,
		Deadline: time.Now().Add(deadline),
		Check: func(b []byte) (err error) {
			if answer, err = telegram.ParseBalanceAnswer(b); err == nil && answer.TranID != id {
				err = errOtherID
			}
			return err
		},
	})
	if res.Err != nil {
		return telegram.BalanceAnswer{}, fmt.Errorf("ask for a balance: %w", res.Err)
	}
	return answer, nil
}
