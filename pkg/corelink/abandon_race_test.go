package corelink_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// belated is a connection on which an abandoned exchange's waking comes late:
// when the core has the next request.
type belated struct {
	*net.TCPConn
	next, woken chan struct{}
	once        sync.Once
}

func (c *belated) SetDeadline(at time.Time) error {
	if !at.Before(time.Now()) {
		return c.TCPConn.SetDeadline(at)
	}
	<-c.next
	defer c.once.Do(func() { close(c.woken) })
	return c.TCPConn.SetDeadline(at)
}

// The context ends when the answer is there. The answer counts, and what wakes
// an exchange whose context ends does not wake the next one on the connection,
// however late it comes.
func TestExchange_ContextThatEndsWithTheAnswer(t *testing.T) {
	next, woken := make(chan struct{}), make(chan struct{})
	second := nth(2)
	h := serve(t, func(conn *net.TCPConn) error {
		for {
			id, err := asked(conn)
			if err != nil {
				return ended(err)
			}
			if id == second {
				close(next)
				<-woken
			}
			if _, err := conn.Write(approval(id)); err != nil {
				return err
			}
		}
	})
	link := newLink(t, keeping(h.addr), func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer()(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &belated{TCPConn: conn.(*net.TCPConn), next: next, woken: woken}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	call := callFor(t, nth(1))
	valid := call.Check
	call.Check = func(b []byte) error { cancel(); return valid(b) }
	if res := link.Exchange(ctx, call); !res.Answered() {
		t.Errorf("the first: sent %s, error %v", res.Sent, res.Err)
	}
	if res := link.Exchange(t.Context(), callFor(t, second)); !res.Answered() {
		t.Errorf("the second: sent %s, error %v", res.Sent, res.Err)
	}
}

// Callers whose contexts end at about the end of their exchanges share few
// connections with those who are patient. None of the patient is disturbed.
func TestExchange_ImpatientCallersDisturbNobody(t *testing.T) {
	const pairs, each = 8, 300
	h := serve(t, steady)
	flags := keeping(h.addr)
	flags.PoolSize = 3
	link, metric := newCounted(t, flags, dialer())
	var work sync.WaitGroup
	impatient := func(n int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		call := callFor(t, nth(n))
		valid := call.Check
		switch n % 3 {
		case 0:
			call.Check = func(b []byte) error { cancel(); return valid(b) }
		case 1:
			call.Check = func(b []byte) error { go cancel(); return valid(b) }
		default:
			call.Ready = func() error { go cancel(); return nil }
		}
		if res := link.Exchange(ctx, call); n%3 != 2 && !res.Answered() {
			t.Errorf("exchange of %d: sent %s, error %v", n, res.Sent, res.Err)
		}
	}
	for p := range pairs {
		work.Go(func() {
			for n := range each {
				impatient(p*each + n)
			}
		})
		work.Go(func() {
			for n := range each {
				answered(t, link, nth((pairs+p)*each+n))
			}
		})
	}
	work.Wait()
	if opened, destroyed, idle := metric("opened"), metric("destroyed"), metric("idle"); opened != destroyed+idle || idle > 3 {
		t.Errorf("%d opened, %d destroyed, %d idle", opened, destroyed, idle)
	}
}
