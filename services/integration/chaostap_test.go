package integration

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

// tap stands between the services and the wire, and writes down for the auditor what
// goes over each connection: a request when its first byte comes, an answer before it
// is handed on.
type tap struct {
	*gate

	target string
	day    *audit.Transcript
}

// newTap lays a tap to an address.
func newTap(t testing.TB, target string, day *audit.Transcript) *tap {
	t.Helper()
	p := &tap{target: target, day: day}
	p.gate = newGate(t, p.carry)
	p.open(t)
	return p
}

func (p *tap) carry(caller net.Conn) {
	core, err := net.Dial("tcp", p.target)
	if err != nil {
		resetConn(caller)
		return
	}
	if !p.keep(core) {
		_ = core.Close()
		return
	}
	defer p.forget(core)
	heard := p.day.Wire()
	var both sync.WaitGroup
	both.Go(func() {
		requests(heard, caller, core)
		_ = core.Close()
	})
	both.Go(func() { answers(heard, caller, core) })
	both.Wait()
}

// requests hands on what a caller asks, until he ends.
func requests(heard *audit.Wire, caller, core net.Conn) {
	frame := make([]byte, telegram.RequestLength)
	for {
		n, err := caller.Read(frame)
		if n == 0 && err != nil {
			return
		}
		begin := time.Now()
		more, err := io.ReadFull(caller, frame[n:])
		if err != nil {
			heard.Torn(begin, frame[:n+more])
		} else {
			heard.Sends(begin, frame)
		}
		if _, failed := core.Write(frame[:n+more]); failed != nil || err != nil {
			return
		}
	}
}

// answers hands on what the core says, until it ends, and ends the caller's side as
// it ended.
func answers(heard *audit.Wire, caller, core net.Conn) {
	some := make([]byte, 4*telegram.AnswerLength)
	for {
		n, err := core.Read(some)
		if n > 0 {
			heard.Hears(time.Now(), some[:n])
			if _, err := caller.Write(some[:n]); err != nil {
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
			_ = caller.Close()
			return
		default:
			resetConn(caller)
			return
		}
	}
}
