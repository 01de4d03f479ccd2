package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// place is where on the wire a frame was seen.
type place int

const (
	fromCaller place = iota + 1 // a request, whole, before any rule
	toCore                      // a request, handed to the core
	fromCore                    // an answer, whole, before any rule
	toCaller                    // an answer, handed to the caller
)

// sighting is a frame at a place.
type sighting struct {
	at     time.Time
	place  place
	mti    string
	tranID string
}

// wire is the network between the core and its callers: a proxy that reads one
// frame after the other and does with it what the rules say. It keeps no
// connection of its own: one of a caller is one to the core.
type wire struct {
	*gate

	mu     sync.Mutex
	target string
	rules  []*rule
	seen   []sighting
	// torn counts connections that ended within a request.
	torn int
}

// newWire lays a wire to a core.
func newWire(t testing.TB, target string) *wire {
	t.Helper()
	w := &wire{target: target}
	w.gate = newGate(t, w.carry)
	w.open(t)
	return w
}

// lead leads new connections to another address: a core that was started again.
func (w *wire) lead(target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = target
}

// errCut ends a connection as a rule says.
var errCut = errors.New("cut")

// carry serves one connection of a caller.
func (w *wire) carry(caller net.Conn) {
	w.mu.Lock()
	target := w.target
	w.mu.Unlock()
	core, err := net.Dial("tcp", target)
	if err != nil {
		resetConn(caller)
		return
	}
	if !w.keep(core) {
		_ = core.Close()
		return
	}
	defer w.forget(core)
	request, answer := make([]byte, telegram.RequestLength), make([]byte, telegram.AnswerLength)
	for {
		n, err := io.ReadFull(caller, request)
		if err != nil {
			w.tore(n)
			return
		}
		if w.pass(request, fromCaller, caller, core) != nil {
			return
		}
		if _, err := io.ReadFull(core, answer); err != nil {
			return
		}
		if w.pass(answer, fromCore, caller, caller) != nil {
			return
		}
	}
}

func (w *wire) tore(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 {
		w.torn++
	}
}

// pass sees a frame, does with it what the rules say, and hands it on.
func (w *wire) pass(frame []byte, at place, caller, to net.Conn) error {
	s := sighting{at: time.Now(), place: at, mti: telegram.MTI(frame), tranID: string(frame[4:26])}
	if r := w.see(s); r != nil {
		if err := r.do(frame, caller, to); err != nil {
			return err
		}
	}
	if _, err := to.Write(frame); err != nil {
		return fmt.Errorf("pass a frame on: %w", err)
	}
	s.at, s.place = time.Now(), at+1
	w.see(s)
	return nil
}

// see records a sighting and returns the rule for it; nil if there is none.
func (w *wire) see(s sighting) *rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
	if s.place == toCore || s.place == toCaller {
		return nil
	}
	for _, r := range w.rules {
		if r.takes(s.mti) {
			return r
		}
	}
	return nil
}

// sightings is what was seen of a message type at a place, oldest first; of
// every transaction if tranID is empty.
func (w *wire) sightings(at place, mti, tranID string) []sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []sighting
	for _, s := range w.seen {
		if s.place == at && s.mti == mti && (tranID == "" || s.tranID == tranID) {
			found = append(found, s)
		}
	}
	return found
}

// requests counts all frames that callers have sent.
func (w *wire) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.torn
	for _, s := range w.seen {
		if s.place == fromCaller {
			n++
		}
	}
	return n
}

// await waits until n frames of a message type were seen at a place, and returns
// the first of them.
func (w *wire) await(t testing.TB, at place, mti, tranID string, n int) sighting {
	t.Helper()
	var first sighting
	eventually(t, fmt.Sprintf("%d frames %s", n, mti), func(context.Context) error {
		found := w.sightings(at, mti, tranID)
		if len(found) < n {
			return fmt.Errorf("%d so far", len(found))
		}
		first = found[0]
		return nil
	})
	return first
}
