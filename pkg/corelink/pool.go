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
// only from an exchange that ended well, and is looked at before it is used
// again.
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
	// expiry ends it when it has been idle for too long.
	expiry *time.Timer
}

// take returns a connection that is fit for an exchange: one that is idle, or a
// new one. With it goes a place, until give or drop.
func (p *pool) take(ctx context.Context, deadline time.Time) (*session, error) {
	if err := p.place(ctx, deadline); err != nil {
		return nil, err
	}
	for s := p.pop(); s != nil; s = p.pop() {
		if look(s.Conn) == nil {
			p.count.reused.Inc()
			return s, nil
		}
		p.destroy(s)
	}
	conn, err := p.connect(ctx, deadline)
	if err != nil {
		p.leave()
		return nil, err
	}
	p.count.opened.Inc()
	return &session{Conn: conn}, nil
}

// place waits for one of the places, for as long as an exchange may wait for it.
func (p *pool) place(ctx context.Context, deadline time.Time) error {
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
		return fmt.Errorf("%w: %w", ErrAbandoned, ctx.Err())
	}
}

func (p *pool) leave() {
	<-p.places
	p.count.active.Dec()
}

// pop takes the idle connection that was used last; nil if there is none.
func (p *pool) pop() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		s := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		p.count.idle.Dec()
		if s.expiry.Stop() {
			return s
		}
		// Its time is up, and expire will look for it in vain.
		p.count.expired.Inc()
		_ = s.Close()
	}
	return nil
}

// give takes back a connection whose exchange ended well.
func (p *pool) give(s *session) {
	defer p.leave()
	if p.flags.PoolIdleTTL == 0 {
		_ = s.Close()
		return
	}
	// A deadline left over would end the next exchange, and a byte behind the
	// answer was meant for nobody.
	if s.SetDeadline(time.Time{}) != nil || look(s.Conn) != nil {
		p.destroy(s)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = s.Close()
		return
	}
	s.expiry = time.AfterFunc(p.flags.PoolIdleTTL, func() { p.expire(s) })
	p.idle = append(p.idle, s)
	p.count.idle.Inc()
}

// drop ends a connection whose exchange did not end well.
func (p *pool) drop(s *session) {
	defer p.leave()
	p.destroy(s)
}

// destroy closes a connection so that nothing that is still on its way, in
// either direction, is of use to anyone.
func (p *pool) destroy(s *session) {
	p.count.destroyed.Inc()
	if tcp, ok := s.Conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = s.Close()
}

func (p *pool) expire(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.idle, s)
	if i < 0 {
		return
	}
	p.idle = slices.Delete(p.idle, i, i+1)
	p.count.idle.Dec()
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
		dialCtx, cancel := context.WithTimeout(ctx, left)
		conn, err := p.dial(dialCtx, "tcp", p.flags.CoreAddr[at])
		cancel()
		if err == nil {
			p.address.Store(int64(at))
			return conn, nil
		}
		last = err
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", ErrAbandoned, ctx.Err())
		}
	}
	if last == nil {
		return nil, ErrNoTime
	}
	return nil, fmt.Errorf("%w: %w", ErrConnect, last)
}
