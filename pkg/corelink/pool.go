package corelink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pool keeps connections to the core for the next exchange. At most PoolSize are
// open at once: a bank contracts a number of sessions. A connection comes back
// only from an exchange that ended well, and must be silent before it is used
// again.
//
// Whoever has a place may have a connection. One that is idle has no place, yet
// the bound holds: a place goes to an idle connection if there is one, and a
// connection is idle before its place is free.
type pool struct {
	flags Flags
	dial  Dialer
	now   func() time.Time
	count poolMetrics

	// places has room for each connection that may be in use.
	places chan struct{}
	// address is the one that took the last connection: the first to be tried.
	address atomic.Int64

	mu     sync.Mutex
	closed bool
	idle   []*session // the one that was used last stands last, and is used first
}

// session is a connection that may be used again.
type session struct {
	net.Conn
	silent silence
	// expiry ends it when it has been idle for too long; nil until it was idle.
	expiry *time.Timer
	// stale is when that is, by the wall clock.
	stale time.Time
}

// enter waits for one of the places, for as long as an exchange may wait for it.
// It is held until leave.
func (p *pool) enter(ctx context.Context, deadline time.Time) error {
	select {
	case p.places <- struct{}{}:
		p.count.active.Inc()
		return nil
	default:
	}
	wait, tooLate := p.flags.PoolWait, ErrSaturated
	if left := deadline.Sub(p.now()); left < wait {
		wait, tooLate = left, ErrNoTime
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case p.places <- struct{}{}:
		p.count.active.Inc()
		return nil
	case <-timer.C:
		return tooLate
	case <-ctx.Done():
		return abandoned(ctx)
	}
}

func (p *pool) leave() {
	p.count.active.Dec()
	<-p.places
}

// take returns a connection that is fit for an exchange: one that is idle, or a
// new one. The caller has a place. It ends the connection by give or drop.
func (p *pool) take(ctx context.Context, deadline time.Time) (*session, error) {
	for s := p.pop(); s != nil; s = p.pop() {
		if s.silent() {
			p.count.reused.Inc()
			return s, nil
		}
		p.drop(s)
	}
	conn, err := p.connect(ctx, deadline)
	if err != nil {
		return nil, err
	}
	p.count.opened.Inc()
	return &session{Conn: conn, silent: listen(conn)}, nil
}

// pop takes the idle connection that was used last; nil if there is none.
func (p *pool) pop() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		s := p.idle[len(p.idle)-1]
		p.idle[len(p.idle)-1] = nil
		p.idle = p.idle[:len(p.idle)-1]
		p.count.idle.Dec()
		// The timers of a process that was stopped are late, and the clock that
		// they go by may have stood still.
		if s.expiry.Stop() && p.now().Round(0).Before(s.stale) {
			return s
		}
		p.expire(s)
	}
	return nil
}

// give takes back a connection whose exchange ended well. A deadline may be left
// on it: each exchange sets its own before it writes.
func (p *pool) give(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		_ = s.Close()
		return
	case p.flags.PoolIdleTTL == 0:
		p.expire(s)
		return
	}
	s.stale = p.now().Round(0).Add(p.flags.PoolIdleTTL)
	if s.expiry == nil {
		s.expiry = time.AfterFunc(p.flags.PoolIdleTTL, func() { p.overdue(s) })
	} else {
		s.expiry.Reset(p.flags.PoolIdleTTL)
	}
	p.idle = append(p.idle, s)
	p.count.idle.Inc()
}

// drop closes a connection so that nothing that is still on its way, in either
// direction, is of use to anyone.
func (p *pool) drop(s *session) {
	p.count.destroyed.Inc()
	if tcp, ok := s.Conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = s.Close()
}

// overdue ends a connection that is idle at its expiry; pop may have been
// faster.
func (p *pool) overdue(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.idle, s); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
		p.count.idle.Dec()
		p.expire(s)
	}
}

func (p *pool) expire(s *session) {
	p.count.expired.Inc()
	_ = s.Close()
}

// close ends the connections that are idle; those in use end when their
// exchange has.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, s := range p.idle {
		s.expiry.Stop()
		p.count.idle.Dec()
		errs = append(errs, s.Close())
	}
	p.idle = nil
	return errors.Join(errs...)
}

// connect tries each address, from the one that worked last, until one takes the
// connection. Nothing has left while it does, so the next address is safe.
func (p *pool) connect(ctx context.Context, deadline time.Time) (net.Conn, error) {
	var last error
	first := int(p.address.Load())
	for i := range p.flags.CoreAddr {
		left := min(deadline.Sub(p.now()), p.flags.ConnectTimeout)
		if left <= 0 {
			break
		}
		at := (first + i) % len(p.flags.CoreAddr)
		conn, err := p.reach(ctx, p.flags.CoreAddr[at], left)
		if err == nil {
			p.address.Store(int64(at))
			return conn, nil
		}
		last = err
		if ctx.Err() != nil {
			return nil, abandoned(ctx)
		}
	}
	if last == nil {
		return nil, ErrNoTime
	}
	return nil, fmt.Errorf("%w: %w", ErrConnect, last)
}

func (p *pool) reach(ctx context.Context, address string, within time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return p.dial(ctx, "tcp", address)
}
