package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// connections is how many the base has: those that the reconciler may have for
// inquiries.
const connections = 16

// readTimeout is the reconciler's.
const readTimeout = 3 * time.Second

// Where the fields stand: the type and the transaction ID in a request as in an
// answer, and in both answers what the core says, with its response code.
const (
	idAt, idEnd     = 4, 4 + tranid.Length
	saysAt, saysEnd = 30, 36
)

var (
	errEcho = errors.New("another request's answer")
	errSays = errors.New("the core says what it should not")
)

// base is how many exchanges a second there are on bare sockets in a burst. A
// fifth of it goes before, until what was cold is warm.
func base(ctx context.Context, c *core, burst time.Duration) (perSecond float64, err error) {
	var stop atomic.Bool
	var made atomic.Int64
	var callers sync.WaitGroup
	failures := make(chan error, connections)
	for range connections {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.addr)
		if err != nil {
			stop.Store(true)
			failures <- err
			break
		}
		callers.Go(func() {
			defer func() { _ = conn.Close() }()
			if err := callUntil(&stop, conn, c, &made); err != nil {
				failures <- err
			}
		})
	}
	<-time.After(burst / 5)
	before, start := made.Load(), time.Now()
	<-time.After(burst)
	count, took := made.Load()-before, time.Since(start)
	stop.Store(true)
	callers.Wait()
	close(failures)
	if err := <-failures; err != nil {
		return 0, fmt.Errorf("bare exchanges: %w", err)
	}
	return float64(count) / took.Seconds(), nil
}

// callUntil does what a row needs, for one payment after the other that the core
// has never seen: it inquires, and then cancels.
func callUntil(stop *atomic.Bool, conn net.Conn, c *core, made *atomic.Int64) error {
	inquiry, err := telegram.StatusRequest{TranID: transactionID(0)}.AppendTo(nil)
	if err != nil {
		return err
	}
	cancel, err := telegram.CancelRequest{TranID: transactionID(0)}.AppendTo(nil)
	if err != nil {
		return err
	}
	answer := make([]byte, telegram.AnswerLength)
	steps := []step{{inquiry, telegram.StatusAnswerMTI, answer}, {cancel, telegram.CancelAnswerMTI, answer}}
	says := c.flag + frame.Done
	for !stop.Load() {
		id := c.fresh()
		for _, s := range steps {
			if err := s.exchange(conn, id, says); err != nil {
				return err
			}
			made.Add(1)
		}
	}
	return nil
}

// step is a request, whose ID is put in, the type of its answer, and where that is
// read to.
type step struct {
	request []byte
	mti     string
	answer  []byte
}

// exchange is the deadline, the write, the read and the check.
func (s step) exchange(conn net.Conn, id tranid.ID, says string) error {
	copy(s.request[idAt:idEnd], id)
	if err := conn.SetDeadline(time.Now().Add(readTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(s.request); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, s.answer); err != nil {
		return err
	}
	switch {
	case string(s.answer[:idAt]) != s.mti || string(s.answer[idAt:idEnd]) != string(id):
		return errEcho
	case string(s.answer[saysAt:saysEnd]) != says:
		return fmt.Errorf("%w: %q in a %s", errSays, s.answer[saysAt:saysEnd], s.mti)
	default:
		return nil
	}
}
