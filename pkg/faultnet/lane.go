package faultnet

import (
	"bytes"
	"time"
)

// Direction is what happens on one way of a connection.
type Direction struct {
	// Segment is how many bytes share one fate. 0: those of one Write, or those
	// that one Read of the connection beneath returns.
	Segment int
	// Fates are those of the segments; nil lets them pass.
	Fates Fates
}

// parcel is bytes that are under way, or the end that is.
type parcel struct {
	bytes []byte
	due   time.Time
	end   End   // Continue for bytes and for err
	err   error // how the connection beneath ended
}

func (p parcel) isEnd() bool { return p.end != Continue || p.err != nil }

// lane is one direction: what was put into it and has not been taken out. It is
// guarded by its Conn.
type lane struct {
	dir Direction

	queue []parcel
	size  int       // bytes in queue
	last  time.Time // when the last of it is due
	ended bool      // nothing is put in any more

	// The segment under way.
	number int
	fate   Fate
	began  time.Time
	offset int
	length int
	copied []byte // of one that is doubled
}

// room is how many bytes may be put in.
func (l *lane) room() int { return BufferSize - l.size }

// head is the first parcel, if it is there.
func (l *lane) head() (parcel, bool) {
	if len(l.queue) == 0 {
		return parcel{}, false
	}
	return l.queue[0], true
}

// take takes out the first bytes of the first parcel, at most count of them. A
// read never gets more than one parcel, so that pieces stay pieces.
func (l *lane) take(count int) {
	p := &l.queue[0]
	count = min(count, len(p.bytes))
	p.bytes = p.bytes[count:]
	l.size -= count
	if len(p.bytes) == 0 {
		l.queue = l.queue[1:]
	}
}

// lastEnd is the end that a fate has put behind all else, and whether there is
// one.
func (l *lane) lastEnd() (End, bool) {
	if !l.ended || len(l.queue) == 0 {
		return Continue, false
	}
	end := l.queue[len(l.queue)-1].end
	return end, end != Continue
}

// discard forgets all that is under way.
func (l *lane) discard() { l.queue, l.size = nil, 0 }

// discardAfter forgets what is not due yet.
func (l *lane) discardAfter(now time.Time) {
	for i, p := range l.queue {
		if p.due.After(now) {
			l.queue = l.queue[:i]
			return
		}
	}
}

// put puts in bytes that arrived now. They belong to something of whole bytes,
// of which a segment without a fixed length is made.
func (l *lane) put(b []byte, whole int, now time.Time) {
	for len(b) > 0 && !l.ended {
		if l.offset == l.length {
			l.next(whole, now)
		}
		n := min(len(b), l.length-l.offset)
		if l.fate.End != Continue {
			n = min(n, l.fate.At-l.offset)
		}
		l.pass(b[:n], now)
		b = b[n:]
		l.offset += n
		switch {
		case l.fate.End != Continue && l.offset == l.fate.At:
			l.push(parcel{end: l.fate.End, due: l.due(now)})
		case l.offset == l.length && len(l.copied) > 0:
			l.push(parcel{bytes: l.copied, due: l.due(now)})
		}
	}
}

// cut ends the segment under way, if it is as long as what was handed over.
func (l *lane) cut() {
	if l.dir.Segment <= 0 {
		l.offset, l.length = 0, 0
	}
}

// next begins a segment.
func (l *lane) next(whole int, now time.Time) {
	l.offset, l.length, l.began, l.copied, l.fate = 0, whole, now, nil, Fate{}
	if l.dir.Segment > 0 {
		l.length = l.dir.Segment
	}
	if l.dir.Fates != nil {
		l.fate = l.dir.Fates(l.number, l.length)
	}
	l.fate.At = min(max(0, l.fate.At), l.length)
	l.number++
}

// pass sends bytes of the segment on their way, unless they are dropped.
func (l *lane) pass(b []byte, now time.Time) {
	if l.fate.Drop {
		return
	}
	if l.fate.Duplicate {
		l.copied = append(l.copied, b...)
	}
	for offset := l.offset; len(b) > 0; {
		n, due := len(b), l.due(now)
		if l.fate.Split > 0 {
			n = min(n, l.fate.Split-offset%l.fate.Split)
			gaps := time.Duration(offset / l.fate.Split)
			if turn := l.began.Add(l.fate.Delay + gaps*l.fate.Gap); turn.After(due) {
				due = turn
			}
		}
		l.push(parcel{bytes: bytes.Clone(b[:n]), due: due})
		b, offset = b[n:], offset+n
	}
}

func (l *lane) due(now time.Time) time.Time { return now.Add(l.fate.Delay) }

// push puts a parcel behind all others. It is never due before them.
func (l *lane) push(p parcel) {
	if p.due.Before(l.last) {
		p.due = l.last
	}
	l.last = p.due
	l.size += len(p.bytes)
	l.ended = l.ended || p.isEnd()
	l.queue = append(l.queue, p)
}
