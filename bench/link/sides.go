package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/bench/paired"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

const (
	readTimeout = 3 * time.Second
	deadline    = 5 * time.Second
)

var errEcho = errors.New("another request's answer")

// request is a frame; what it says is all one to the core of this program.
var request = []byte("0200GWMNU20260301000000001" + strings.Repeat("0", telegram.RequestLength-idEnd))

// check is what both sides do with an answer.
func check(answer []byte) error {
	if !bytes.Equal(answer[idAt:idEnd], request[idAt:idEnd]) {
		return errEcho
	}
	return nil
}

// bare is a connection for each caller, and on it what an exchange cannot do
// without: the deadline, the write, the read and the check.
func bare(ctx context.Context, addr string, callers int) (side paired.Side, end func(), err error) {
	conns := make([]net.Conn, callers)
	end = func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	}
	var dialer net.Dialer
	for n := range conns {
		if conns[n], err = dialer.DialContext(ctx, "tcp", addr); err != nil {
			end()
			return paired.Side{}, nil, fmt.Errorf("connect: %w", err)
		}
	}
	return paired.Side{Name: "bare sockets", CPU: paired.OwnCPU, Caller: func(_ context.Context, n int) func() error {
		conn, answer := conns[n], make([]byte, telegram.AnswerLength)
		return func() error {
			if err := conn.SetDeadline(time.Now().Add(readTimeout)); err != nil {
				return err
			}
			if _, err := conn.Write(request); err != nil {
				return err
			}
			if _, err := io.ReadFull(conn, answer); err != nil {
				return err
			}
			return check(answer)
		}
	}}, end, nil
}

// pooled is a link with a connection for each caller.
func pooled(addr string, callers int) *corelink.Link {
	return corelink.New(corelink.Options{
		Flags: corelink.Flags{
			CoreAddr: []string{addr}, ReadTimeout: readTimeout, ConnectTimeout: 2 * time.Second,
			PoolSize: callers, PoolWait: 500 * time.Millisecond, PoolIdleTTL: 30 * time.Second,
		},
		Name: "bench", Dial: (&net.Dialer{}).DialContext, Now: time.Now,
		Metrics: corelink.NewMetrics(prometheus.NewRegistry()),
	})
}

// calls is the side of an exchanger. As in the services, the context of an
// inquiry may end, and that of a payment does not.
func calls(name string, e resilience.Exchanger, kind corelink.Kind) paired.Side {
	return paired.Side{Name: name, CPU: paired.OwnCPU, Caller: func(ctx context.Context, _ int) func() error {
		if kind == corelink.Mutation {
			ctx = context.WithoutCancel(ctx)
		}
		return func() error {
			return e.Exchange(ctx, corelink.Call{
				Tx: corelink.TxBalance, Kind: kind, Frame: request, AnswerLength: telegram.AnswerLength,
				Check: check, Deadline: time.Now().Add(deadline),
			}).Err
		}
	}}
}

// instant is an exchanger without a core.
type instant struct{}

// Exchange says that a valid answer came.
func (instant) Exchange(context.Context, corelink.Call) corelink.Result {
	return corelink.Result{Sent: corelink.SentAll}
}

// gate is the circuits with the settings that the binaries start with, but one
// failure opens them, and for an hour.
func gate(e resilience.Exchanger) *resilience.Gate {
	return resilience.New(resilience.Options{
		Flags: resilience.Flags{
			CircuitMode: resilience.ModeRate, CircuitWindow: 20, CircuitMinCalls: 1,
			CircuitRequestThreshold: 15, CircuitQueryThreshold: 20,
			CircuitFailures: 1, CircuitProbes: 1, CircuitOpenWait: time.Hour, HalfopenCalls: 5, HalfopenMinCalls: 3,
			Retries: 2, RetryBackoff: 200 * time.Millisecond,
		},
		Request: e, Query: e, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
}

// refusals is the side of a circuit that is open because nobody is at the core.
func refusals(ctx context.Context) (paired.Side, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return paired.Side{}, fmt.Errorf("find an address: %w", err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return paired.Side{}, fmt.Errorf("leave the address: %w", err)
	}
	dead := calls("refused by the circuit", gate(pooled(addr, 1)), corelink.Inquiry)
	// The first call finds out that nobody is there.
	if err := dead.Caller(ctx, 0)(); !errors.Is(err, corelink.ErrConnect) {
		return paired.Side{}, fmt.Errorf("call a dead core: %w", err)
	}
	begin := dead.Caller
	dead.Caller = func(ctx context.Context, n int) func() error {
		call := begin(ctx, n)
		return func() error {
			var refused *resilience.OpenError
			if err := call(); !errors.As(err, &refused) {
				return fmt.Errorf("not refused: %w", err)
			}
			return nil
		}
	}
	return dead, nil
}
