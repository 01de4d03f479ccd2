// Package faultnet makes a net.Conn behave as badly as a network can: bytes come
// late, in pieces, twice or not at all, and connections end in the middle of
// what they carry. It is for tests; no binary links it.
//
// Wrap stands a Conn before any other, a pipe in a synctest bubble as well as a
// TCP connection. Each direction has fates of its own: out is what this side
// writes, in is what it reads. Wrapping the client's end is enough to trouble
// both ways.
//
// # Segments and fates
//
// A direction is cut into segments, and each segment has one Fate. With
// Direction.Segment, every so many bytes are a segment, a frame's length for
// instance; then what happens depends on the bytes and the fates alone, not on
// how the bytes were cut up on their way, and is the same over a pipe and over
// TCP. Without it, what one Write hands over is a segment, and so is what one
// Read of the connection beneath returns: over TCP that is not the same in every
// run.
//
// Fates come from a script or are drawn:
//
//	conn = faultnet.Wrap(conn,
//		faultnet.Direction{Segment: 52, Fates: odds.Fates(rand.NewPCG(seed, 2*n))},
//		faultnet.Direction{Segment: 61, Fates: odds.Fates(rand.NewPCG(seed, 2*n+1))},
//	)
//
// Odds draw equally often for every segment, whatever comes of it: to change
// one of the odds changes no other draw. A source serves one direction of one
// connection, since the two directions and other connections run side by side.
// The same seed, and the same bytes, have the same fates. Under virtual time
// they also arrive at the same moments, as far as no two events share a moment:
// those are in no order. Odds whose Delay is 1 see to that.
//
// To see the fates, put a function before them that keeps what they say.
//
// # What is like TCP
//
// A Write returns when its bytes are in a buffer of BufferSize, and blocks while
// that is full. From then on they are under way, and nothing takes them back:
// not Close, and not SetLinger(0), which say only how the connection ends behind
// them. So a request may arrive long after the one who sent it gave up, which is
// the very thing that a gateway must survive. Bytes keep their order: what is
// late holds up what follows.
//
// Deadlines, Close and their errors are those of net.Conn: os.ErrDeadlineExceeded
// and net.ErrClosed. A deadline that has passed wins over bytes that are there.
// A connection that a fate ended says io.EOF or syscall.EPIPE (Truncate),
// or syscall.ECONNRESET (Reset).
//
// # Goroutines
//
// Those of a Conn end after Close, as soon as what is under way has arrived, and
// with them the connection beneath: Done says when. A peer that does not read
// delays each piece of it by FlushLimit at most, and the first that it does not
// take is the last. A Conn that is not closed keeps them, however a fate ended
// it.
package faultnet
