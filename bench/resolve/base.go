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

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// connections is how many the base has: those that the reconciler may have for
// inquiries.
const connections = 16

// readTimeout is the reconciler's.
const readTimeout = 3 * time.Second

var errEcho = errors.New("another request's answer")

// base is how many exchanges a second there are on bare sockets in a burst. A
// fifth of it goes before, until what was cold is warm.
func base(ctx context.Context, addr string, burst time.Duration) (perSecond float64, err error) {
	var stop atomic.Bool
	var done atomic.Int64
	var callers sync.WaitGroup
	failures := make(chan error, connections)
	for range connections {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			stop.Store(true)
			failures <- err
			break
		}
		callers.Go(func() {
			defer func() { _ = conn.Close() }()
			if err := callUntil(&stop, conn, &done); err != nil {
				failures <- err
			}
		})
	}
	<-time.After(burst / 5)
	before, start := done.Load(), time.Now()
	<-time.After(burst)
	count, took := done.Load()-before, time.Since(start)
	stop.Store(true)
	callers.Wait()
	close(failures)
	if err := <-failures; err != nil {
		return 0, fmt.Errorf("bare exchanges: %w", err)
	}
	return float64(count) / took.Seconds(), nil
}

// callUntil makes one exchange after the other: the deadline, the write, the read
// and the check.
func callUntil(stop *atomic.Bool, conn net.Conn, done *atomic.Int64) error {
	request, err := telegram.StatusRequest{TranID: transactionID(1)}.AppendTo(nil)
	if err != nil {
		return err
	}
	answer := make([]byte, telegram.AnswerLength)
	for !stop.Load() {
		if err := conn.SetDeadline(time.Now().Add(readTimeout)); err != nil {
			return err
		}
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, answer); err != nil {
			return err
		}
		if string(answer[idAt:idEnd]) != string(request[idAt:idEnd]) {
			return errEcho
		}
		done.Add(1)
	}
	return nil
}
