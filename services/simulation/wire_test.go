package simulation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/gwanmun/gwanmun/pkg/faultnet"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

var errRefused = errors.New("dial: connection refused")

// port is one of the core's.
type port uint8

const (
	frames port = iota
	listings
)

// dialer opens connections of a process to a port of the core.
func (p *process) dialer(to port) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		die := p.next("dial")
		if !sleep(ctx, die.of("there").between(50*time.Microsecond, 2*time.Millisecond)) {
			return nil, gaveUp(ctx)
		}
		p.awake(die)
		w := p.world
		if cut := w.active(cutOff, p.slot); cut != nil {
			if cut.die.chance(0.5) {
				return nil, errRefused
			}
			<-ctx.Done() // nobody answers at all
			return nil, gaveUp(ctx)
		}
		beneath := w.core.accept(to, die)
		if beneath == nil {
			return nil, errRefused
		}
		conn := faultnet.Wrap(beneath, p.way(to, die.of("out"), true), p.way(to, die.of("in"), false))
		w.run(func() { <-conn.Done() })
		s := &socket{Conn: conn, p: p, die: die}
		if to == frames {
			s.heard = w.audit.Socket()
		}
		p.keep(s)
		return s, nil
	}
}

// gaveUp is the end of a dial whose time is up. Contexts that end at one moment have
// all ended a moment later.
func gaveUp(ctx context.Context) error {
	time.Sleep(time.Microsecond)
	return ctx.Err()
}

// calm is a network as it is on a good day; every frame has a moment of its own.
var calm = faultnet.Odds{Delay: 1, MinDelay: 40 * time.Microsecond, MaxDelay: 1500 * time.Microsecond}

// rough is one as it is on a bad day.
var rough = faultnet.Odds{
	Delay: 1, MinDelay: 40 * time.Microsecond, MaxDelay: 400 * time.Millisecond,
	Drop: 0.08, Duplicate: 0.02, Split: 0.2, MaxGap: 100 * time.Millisecond, Truncate: 0.04, Reset: 0.05, HalfClose: 0.03,
}

// way is one direction of a connection: the weather is that of the moment.
func (p *process) way(to port, die dice, out bool) faultnet.Direction {
	length := telegram.AnswerLength
	if out {
		length = telegram.RequestLength
	}
	if to == listings {
		length = 0
	}
	good, bad := calm.Fates(die.of("calm").source()), rough.Fates(die.of("rough").source())
	n := 0
	return faultnet.Direction{Segment: length, Fates: func(segment, length int) faultnet.Fate {
		n++
		d := die.nth(n)
		fate, trouble := good(segment, length), bad(segment, length)
		if p.world.active(wireRough, p.slot) != nil {
			fate = trouble
		}
		fate.Duplicate = fate.Duplicate && p.world.plan.house.dedupes
		if late := p.world.active(wireLate, p.slot); late != nil && d.of("late").chance(late.odds) {
			fate.Delay += d.of("how late").between(time.Millisecond, late.amount)
		}
		return fate
	}}
}

// socket is a connection as its process has it: it ends with the process, stands
// still with it, and has its clock. The auditor hears what goes over it.
type socket struct {
	*faultnet.Conn
	p     *process
	die   dice
	heard *audit.Socket
	sent  int
}

func (s *socket) Write(b []byte) (int, error) {
	s.sent++
	die := s.die.of("write").nth(s.sent)
	s.p.awake(die)
	if s.p.isDead() {
		return 0, net.ErrClosed
	}
	torn := s.p.world.active(wireTorn, s.p.slot)
	cut := len(b)
	if torn != nil && die.chance(torn.odds) {
		cut = int(die.of("cut").between(0, time.Duration(len(b))))
	}
	if cut == 0 {
		s.say(b, "takes no byte")
		return 0, os.NewSyscallError("write", syscall.EPIPE)
	}
	if s.heard != nil {
		s.heard.Sends(b)
	}
	n, err := s.Conn.Write(b[:cut])
	switch {
	case n == len(b) && err == nil:
		s.say(b, "leaves")
		return n, nil
	case err == nil:
		err = os.NewSyscallError("write", syscall.EPIPE)
	}
	s.say(b, fmt.Sprintf("leaves, %d bytes of it", n))
	if s.heard != nil {
		s.heard.Cut()
	}
	return n, err
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.p.awake(s.die.of("read").nth(s.sent))
	if s.p.isDead() {
		return 0, net.ErrClosed
	}
	if s.heard != nil {
		s.heard.Hears(b[:n])
		if n > 0 {
			s.say(b[:n], fmt.Sprintf("comes, %d bytes", n))
		}
	}
	return n, err
}

func (s *socket) say(b []byte, what string) {
	if f := audit.FrameOf(b); s.heard != nil {
		s.p.say(f.ID, "%s %s", f.MTI, what)
	}
}

// bellRings is how much later than a context a socket notices that time is up. Both
// at one moment would be in no order.
const bellRings = 137 * time.Nanosecond

// SetDeadline takes a time by the process's clock. A read deadline alone is set by
// a look of a moment, which goes by the runtime's.
func (s *socket) SetDeadline(t time.Time) error {
	return s.Conn.SetDeadline(t.Add(bellRings - s.p.clock.skew()))
}

// sleep waits, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
