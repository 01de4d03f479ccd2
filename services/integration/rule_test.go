package integration

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// rule is what a wire does with the frames of one message type. The first rule
// that takes a frame has it.
type rule struct {
	mti string
	// left is how many more frames it takes; negative for all.
	left int
	// do may change the frame, which is then handed to to; an error ends both
	// ways.
	do func(frame []byte, caller, to net.Conn) error
	// release ends what it holds.
	release func()
}

// takes reports whether the rule is for a frame, and counts it. The wire's lock
// is held.
func (r *rule) takes(mti string) bool {
	if r.mti != mti || r.left == 0 {
		return false
	}
	r.left--
	return true
}

// every is for a rule that takes every frame of its message type.
const every = -1

func (w *wire) add(r *rule) *rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, r)
	return r
}

// hold holds n frames until the rule is released, which it is at the end of the
// test at the latest.
func (w *wire) hold(t testing.TB, mti string, n int) *rule {
	t.Helper()
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	return w.add(&rule{mti: mti, left: n, release: release, do: func([]byte, net.Conn, net.Conn) error {
		<-released
		return nil
	}})
}

// delay hands n frames on so much later.
func (w *wire) delay(mti string, n int, by time.Duration) {
	w.add(&rule{mti: mti, left: n, do: func([]byte, net.Conn, net.Conn) error {
		<-time.After(by)
		return nil
	}})
}

// cut hands only the first bytes of n frames on and then closes both ways.
func (w *wire) cut(mti string, n, bytes int) {
	w.add(&rule{mti: mti, left: n, do: func(frame []byte, _, to net.Conn) error {
		if _, err := to.Write(frame[:bytes]); err != nil {
			return fmt.Errorf("pass the first bytes on: %w", err)
		}
		return errCut
	}})
}

// reset hands nothing of n frames on and resets the way on which they came to
// be handed.
func (w *wire) reset(mti string, n int) {
	w.add(&rule{mti: mti, left: n, do: func(_ []byte, _, to net.Conn) error {
		resetConn(to)
		return errCut
	}})
}

// swallow hands nothing of n frames on and leaves the connection as it is.
func (w *wire) swallow(mti string, n int) {
	w.add(&rule{mti: mti, left: n, do: func(_ []byte, caller, _ net.Conn) error {
		// Until the caller ends the connection, or the test does.
		_, _ = io.Copy(io.Discard, caller)
		return errCut
	}})
}

// bend changes n frames on their way.
func (w *wire) bend(mti string, n int, change func(frame []byte)) {
	w.add(&rule{mti: mti, left: n, do: func(frame []byte, _, _ net.Conn) error {
		change(frame)
		return nil
	}})
}

// clear ends every rule; what is held stays held until it is released.
func (w *wire) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = nil
}
