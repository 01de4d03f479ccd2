package faultnet

import (
	"net"
	"time"
)

// deliver writes what goes out to the connection beneath, each parcel when it is
// due, and closes that connection in the end.
func (c *Conn) deliver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.end == Continue {
		head, some := c.out.head()
		switch {
		case !some && c.closed:
			c.closeBeneath()
			return
		case !some || head.due.After(time.Now()):
			c.wait(head.due)
		case head.isEnd():
			c.out.discard() // it is the last
			c.reachEnd(head.end)
		default:
			c.writeBeneath(head.bytes)
		}
	}
	c.closeBeneath()
}

// writeBeneath writes a parcel and takes it out. The caller holds mu, but not
// meanwhile: the bytes are not touched by anyone else.
func (c *Conn) writeBeneath(b []byte) {
	if c.closed {
		c.limitFlush()
	}
	c.mu.Unlock()
	_, err := c.beneath.Write(b)
	c.mu.Lock()
	if err != nil {
		c.broken = err
		c.out.discard()
		c.out.ended = true
	} else {
		c.out.take(len(b))
	}
	c.wake()
}

// limitFlush lets what is written beneath take no longer than FlushLimit from
// now on.
func (c *Conn) limitFlush() {
	// A connection that is gone already says so when it is written to.
	_ = c.beneath.SetWriteDeadline(time.Now().Add(FlushLimit))
}

// reachEnd does what an end on the way out is. The caller holds mu.
func (c *Conn) reachEnd(end End) {
	if end == HalfClose {
		if half, can := c.beneath.(interface{ CloseWrite() error }); can {
			// A connection that is gone already has nothing to end.
			_ = half.CloseWrite()
			return
		}
		end = Truncate
	}
	c.endBoth(end)
}

// endBoth ends both directions for good. What has arrived may still be read;
// behind a reset nothing more arrives. The caller holds mu.
func (c *Conn) endBoth(end End) {
	c.end = end
	if end == Reset {
		c.in.discardAfter(time.Now())
	}
	c.wake()
}

// closeBeneath closes the connection beneath. The caller holds mu.
func (c *Conn) closeBeneath() {
	if tcp, can := c.beneath.(interface{ SetLinger(sec int) error }); can && (c.hard || c.end == Reset) {
		// A connection that is gone already cannot be reset, and need not be.
		_ = tcp.SetLinger(0)
	}
	_ = c.beneath.Close() // there is no one to tell
}

// collect reads from the connection beneath until that ends.
func (c *Conn) collect() {
	buf := make([]byte, BufferSize/2)
	for {
		n, err := c.beneath.Read(buf)
		if !c.arrive(buf[:n], err) {
			return
		}
	}
}

// arrive takes what the connection beneath had to say, and reports whether to
// listen to it any longer.
func (c *Conn) arrive(b []byte, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for whole := len(b); len(b) > 0 && c.isOpen(); {
		n := min(len(b), c.in.room())
		if n <= 0 {
			c.wait()
			continue
		}
		c.in.put(b[:n], whole, time.Now())
		b = b[n:]
		c.wake()
	}
	if end, ended := c.in.lastEnd(); ended && end != HalfClose {
		c.awaitEnd()
		return false
	}
	if err != nil && !c.in.ended && c.isOpen() {
		c.in.push(parcel{err: err, due: time.Now()})
		c.wake()
	}
	return err == nil
}

// awaitEnd ends both directions when the end on the way in is due. The caller
// holds mu.
func (c *Conn) awaitEnd() {
	for c.settle(time.Now()); c.isOpen(); c.settle(time.Now()) {
		c.wait(c.in.last)
	}
}

// settle ends both directions if the end on the way in is due. Whoever reads or
// writes looks first, so that what they see depends on the time alone, and not
// on which goroutine was faster. The caller holds mu.
func (c *Conn) settle(now time.Time) {
	end, ended := c.in.lastEnd()
	if ended && end != HalfClose && c.isOpen() && !c.in.last.After(now) {
		c.endBoth(end)
	}
}

// isOpen reports whether anyone still wants to know what arrives. The caller
// holds mu.
func (c *Conn) isOpen() bool { return !c.closed && c.end == Continue }

var _ net.Conn = (*Conn)(nil)
