package gormstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// The bounds of what is written together.
const (
	// maxBatch is the most rows of one commit.
	maxBatch = 256
	// maxWaiting is how many may wait; who comes then waits for a place.
	maxWaiting = 4 * maxBatch
	// crowd is how many wait when a second batch is begun beside the one that is
	// being written. Until then the next batch gains more by growing.
	crowd = 40
	// batchTimeout ends a batch that hangs, so that those who wait behind it go
	// their own ways. A peer that sleeps with our rows locked is thrown out by the
	// database before (longestIdle).
	batchTimeout = 15 * time.Second
)

// errAlone says that a row was not settled with its batch, and that nothing of it
// is stored: who asked is to write it alone.
var errAlone = errors.New("not written together with others")

// reply is what became of one question of a batch.
type reply[A any] struct {
	answer A
	err    error
}

// line is where those wait who have a row of one kind to write, and the one
// goroutine that writes what waits, together, while the next wait: the more of
// them come, the more are written with one commit. One who comes alone waits for
// nobody and wakes nobody, but writes the row himself. Where the database takes
// several writers, another goroutine writes what a crowd waits for beside it, so
// that somebody has something to do while a batch is made durable.
type line[Q, A any] struct {
	waiting chan *place[Q, A]
	// turn has one token, which whoever writes holds, but for the second writer.
	turn chan struct{}
	// next is 1 while the first of those who wait is out of the channel, and his
	// turn has not come.
	next atomic.Int32
	// crowded has a token while the second writer is called for; it is nil where
	// there is none.
	crowded chan struct{}
	// write settles a batch: a reply for each question. It obeys its context.
	write func(ctx context.Context, batch []Q) []reply[A]
	rows  prometheus.Observer

	closing chan struct{}
	writers sync.WaitGroup
	ended   chan struct{} // closed when no writer runs
	once    sync.Once
}

// place is one who waits.
type place[Q, A any] struct {
	question Q
	reply    chan reply[A] // buffered
	// asker is the span of who asks.
	asker trace.Span
	// state moves once, from standing to one of the others.
	state atomic.Int32
	// group is set before the place is taken.
	group *group
}

const (
	standing int32 = iota
	taken          // by the writer: the row may be stored from now on
	left           // by whoever waited: the row is not written
)

// group is how many still wait for a batch. When nobody does, it ends.
type group struct {
	waiting atomic.Int64
	cancel  context.CancelFunc
}

func (g *group) leave() {
	if g.waiting.Add(-1) == 0 {
		g.cancel()
	}
}

// newLine is a line whose batches go through write, one at a time.
func newLine[Q, A any](rows prometheus.Observer, write func(context.Context, []Q) []reply[A]) *line[Q, A] {
	return newLineOf(1, rows, write)
}

// newLineOf is a line of which two batches may go through write at a time, if as
// many writers are allowed.
func newLineOf[Q, A any](
	writers int, rows prometheus.Observer, write func(context.Context, []Q) []reply[A],
) *line[Q, A] {
	l := &line[Q, A]{
		waiting: make(chan *place[Q, A], maxWaiting), write: write, rows: rows,
		closing: make(chan struct{}), ended: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	l.turn <- struct{}{}
	l.writers.Go(l.run)
	if writers > 1 {
		l.crowded = make(chan struct{}, 1)
		l.writers.Go(l.runBeside)
	}
	go func() {
		l.writers.Wait()
		close(l.ended)
	}()
	return l
}

// ask has the question settled, together with those of others. After an error of
// the context the row may be stored.
func (l *line[Q, A]) ask(ctx context.Context, question Q) (A, error) {
	var none A
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	if l.isMyTurn() {
		defer func() { l.turn <- struct{}{} }()
		return l.settleOwn(ctx, question)
	}
	p := &place[Q, A]{question: question, reply: make(chan reply[A], 1), asker: trace.SpanFromContext(ctx)}
	select {
	case l.waiting <- p:
		l.callSecond()
	case <-ctx.Done():
		return none, ctx.Err()
	case <-l.closing:
		return none, errClosed
	}
	select {
	case r := <-p.reply:
		return r.answer, r.err
	case <-ctx.Done():
		if !p.state.CompareAndSwap(standing, left) {
			p.group.leave()
		}
		return none, ctx.Err()
	case <-l.ended:
	}
	select {
	case r := <-p.reply:
		return r.answer, r.err
	default: // it came in when the writer had gone
		return none, errClosed
	}
}

// length is how many wait.
func (l *line[Q, A]) length() int { return len(l.waiting) + int(l.next.Load()) }

// isMyTurn takes the turn if nobody writes and nobody waits.
func (l *line[Q, A]) isMyTurn() bool {
	select {
	case <-l.turn:
	default:
		return false
	}
	select {
	case <-l.closing:
	default:
		if l.length() == 0 {
			return true
		}
	}
	l.turn <- struct{}{}
	return false
}

// settleOwn writes a batch of one, until who asks leaves.
func (l *line[Q, A]) settleOwn(ctx context.Context, question Q) (A, error) {
	writing, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	asker := []*place[Q, A]{{asker: trace.SpanFromContext(ctx)}}
	writing, batch := span.Batch(writing, "ledger batch", recorded(asker))
	defer batch.End()
	r := l.write(writing, []Q{question})[0] //nolint:contextcheck // it may outlast who asks by what ending it takes
	if !errors.Is(r.err, errAlone) {
		l.rows.Observe(1)
	}
	if r.err != nil && ctx.Err() != nil {
		return r.answer, ctx.Err()
	}
	return r.answer, r.err
}

// callSecond wakes the second writer, if a crowd waits.
func (l *line[Q, A]) callSecond() {
	if len(l.waiting) < crowd {
		return
	}
	select {
	case l.crowded <- struct{}{}:
	default: // it is called already, or there is none
	}
}

// close waits for the batches under way. Who waits behind it is refused.
func (l *line[Q, A]) close() {
	l.once.Do(func() { close(l.closing) })
	<-l.ended
	l.turn <- <-l.turn // whoever writes for himself has ended
}

func (l *line[Q, A]) run() {
	for {
		select {
		case <-l.closing:
			return
		default:
		}
		select {
		case <-l.closing:
			return
		case first := <-l.waiting:
			l.next.Store(1)
			select {
			case <-l.closing:
				return
			case <-l.turn:
			}
			l.next.Store(0)
			l.settle(first)
			l.turn <- struct{}{}
		}
	}
}

// runBeside writes a batch beside run's whenever a crowd waits.
func (l *line[Q, A]) runBeside() {
	for {
		select {
		case <-l.closing:
			return
		case <-l.crowded:
		}
		for len(l.waiting) >= crowd {
			select {
			case <-l.closing:
				return
			default:
			}
			select {
			case first := <-l.waiting:
				l.settle(first)
			default: // others were faster
			}
		}
	}
}

// settle writes a batch: the first, and all who wait.
func (l *line[Q, A]) settle(first *place[Q, A]) {
	ctx, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	g := &group{cancel: cancel}
	g.waiting.Store(1) // the writer, until it has taken all
	places, questions := l.take(g, first)
	g.leave()
	if len(places) == 0 {
		return
	}
	ctx, batch := span.Batch(ctx, "ledger batch", recorded(places))
	defer batch.End()
	settled := 0
	for i, r := range l.write(ctx, questions) {
		if !errors.Is(r.err, errAlone) {
			settled++
		}
		places[i].reply <- r
	}
	if settled > 0 {
		l.rows.Observe(float64(settled))
	}
}

// recorded are the spans of those who are traced.
func recorded[Q, A any](places []*place[Q, A]) []trace.Span {
	var spans []trace.Span
	for _, p := range places {
		if p.asker.IsRecording() {
			spans = append(spans, p.asker)
		}
	}
	return spans
}

func (l *line[Q, A]) take(g *group, next *place[Q, A]) (places []*place[Q, A], questions []Q) {
	for {
		next.group = g
		g.waiting.Add(1)
		if next.state.CompareAndSwap(standing, taken) {
			places, questions = append(places, next), append(questions, next.question)
		} else {
			g.waiting.Add(-1)
		}
		if len(places) == maxBatch {
			return places, questions
		}
		select {
		case next = <-l.waiting:
		default:
			return places, questions
		}
	}
}

// leftAlone is a batch of which nothing is settled.
func leftAlone[A any](count int, why error) []reply[A] {
	replies := make([]reply[A], count)
	for i := range replies {
		replies[i].err = why
	}
	return replies
}
