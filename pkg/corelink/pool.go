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
	// sweeper ends those that are idle for too long. It is set while any may be,
	// and goes off when the first one may be stale; no exchange has to set one.
	sweeper *time.Timer
}

// session is a connection that may be used again.
type session struct {
	net.Conn
	silent silence
	// taken is when it was taken for an exchange.
	taken time.Time
	// stale is when it has been idle for too long.
	stale time.Time
}

// enter waits for one of the places, for as long as an exchange may wait for it.
// It is held until leave.
func (p *pool) enter(ctx context.Context, deadline time.Time) error {
	select {
	case p.places <- struct{}{}:
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
		return nil
	case <-timer.C:
		return tooLate
	case <-ctx.Done():
		return abandoned(ctx)
	}
}

func (p *pool) leave() { <-p.places }

// active is how many places are held.
func (p *pool) active() float64 { return float64(len(p.places)) }

// waiting is how many connections are idle.
func (p *pool) waiting() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return float64(len(p.idle))
}

// take returns a connection that is fit for an exchange: one that is idle, or a
// new one. The caller has a place. He ends with the connection by give or drop.
func (p *pool) take(ctx context.Context, deadline time.Time) (*session, error) {
	now := p.now()
	if !now.Before(deadline) {
		return nil, ErrNoTime
	}
	for s := p.pop(now); s != nil; s = p.pop(now) {
		if s.silent() {
			p.count.reused.Inc()
			s.taken = now
			return s, nil
		}
		p.drop(s)
	}
	conn, err := p.connect(ctx, deadline)
	if err != nil {
		return nil, err
	}
	p.count.opened.Inc()
	return &session{Conn: conn, silent: listen(conn), taken: p.now()}, nil
}

// pop takes the idle connection that was used last; nil if there is none.
func (p *pool) pop(now time.Time) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		s := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		// The timers of a process that was stopped are late.
		if now.Before(s.stale) {
			return s
		}
		p.expire(s)
	}
	return nil
}

// give takes back a connection that was used last at that time; zero is now. Its
// exchange ended well, or sent nothing. A deadline may be left on it: each
// exchange sets its own before it writes.
func (p *pool) give(s *session, used time.Time) {
	if used.IsZero() {
		used = p.now()
	}
	s.stale = used.Add(p.flags.PoolIdleTTL)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		_ = s.Close()
	case p.flags.PoolIdleTTL == 0:
		p.expire(s)
	default:
		p.idle = append(p.idle, s)
		if p.sweeper == nil {
			p.sweeper = time.AfterFunc(p.flags.PoolIdleTTL, p.sweep)
		}
	}
}

// sweep ends the connections whose time is up. They stand in the order in which
// they came back, which is about that of their times; pop is exact.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, n := p.now(), 0
	for ; n < len(p.idle) && !now.Before(p.idle[n].stale); n++ {
		p.expire(p.idle[n])
	}
	p.idle = slices.Delete(p.idle, 0, n)
	if p.sweeper = nil; len(p.idle) > 0 {
		p.sweeper = time.AfterFunc(p.idle[0].stale.Sub(now), p.sweep)
	}
}

func (p *pool) expire(s *session) {
	p.count.expired.Inc()
	_ = s.Close()
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

// close ends the connections that are idle; those in use end when their
// exchange has.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	for _, s := range p.idle {
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
