package gormstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// desk is a line whose batches end when the test says so.
type desk struct {
	*line[int, int]
	begun chan []int     // each batch, as it begins
	end   chan struct{}  // one is received for each batch
	fate  chan error     // what became of the context of each
	asked sync.WaitGroup // those who ask
}

func newDesk() *desk { return newDeskOf(1) }

func newDeskOf(writers int) *desk {
	d := &desk{begun: make(chan []int, maxBatch), end: make(chan struct{}), fate: make(chan error, maxBatch)}
	d.line = newLineOf(writers, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rows"}), func(ctx context.Context, batch []int) []reply[int] {
		d.begun <- batch
		select {
		case <-d.end:
		case <-ctx.Done():
		}
		d.fate <- ctx.Err()
		if ctx.Err() != nil {
			return leftAlone[int](len(batch), ctx.Err())
		}
		replies := make([]reply[int], len(batch))
		for i, n := range batch {
			replies[i].answer = -n
		}
		return replies
	})
	return d
}

// asks asks n, and returns what comes of it.
func (d *desk) asks(ctx context.Context, n int) chan error {
	answered := make(chan error, 1)
	d.asked.Go(func() {
		answer, err := d.ask(ctx, n)
		if err == nil && answer != -n {
			err = errors.New("another's answer")
		}
		answered <- err
	})
	return answered
}

func TestLine_WhoWaitsMeanwhileIsWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		first := d.asks(t.Context(), 1)
		if batch := <-d.begun; len(batch) != 1 {
			t.Errorf("%d were written first", len(batch))
		}
		const others = maxBatch + 44
		answered := make([]chan error, others)
		for i := range answered {
			answered[i] = d.asks(t.Context(), i+2)
		}
		synctest.Wait()
		for _, want := range []int{maxBatch, others - maxBatch} {
			d.end <- struct{}{}
			if batch := <-d.begun; len(batch) != want {
				t.Errorf("%d were written together, want %d", len(batch), want)
			}
		}
		d.end <- struct{}{}
		for i, a := range append(answered, first) {
			if err := <-a; err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		d.close()
	})
}

func TestLine_WhoLeavesInTimeIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		ctx, leave := context.WithCancel(t.Context())
		first := d.asks(t.Context(), 1)
		<-d.begun
		stays, leaves := d.asks(t.Context(), 2), d.asks(ctx, 3)
		synctest.Wait()
		leave()
		if err := <-leaves; !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v", err)
		}
		d.end <- struct{}{}
		if batch := <-d.begun; len(batch) != 1 || batch[0] != 2 {
			t.Errorf("wrote %v", batch)
		}
		d.end <- struct{}{}
		if err := errors.Join(<-first, <-stays); err != nil {
			t.Error(err)
		}
		d.close()
	})
}

func TestLine_BatchEndsWhenNobodyWaitsForItAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		blocker := d.asks(t.Context(), 1)
		<-d.begun
		one, oneLeaves := context.WithCancel(t.Context())
		other, otherLeaves := context.WithCancel(t.Context())
		first, second := d.asks(one, 2), d.asks(other, 3)
		synctest.Wait()
		d.end <- struct{}{}
		if batch := <-d.begun; len(batch) != 2 {
			t.Fatalf("wrote %v", batch)
		}
		if err := <-d.fate; err != nil {
			t.Errorf("the batch before: %v", err)
		}
		oneLeaves()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v", err)
		}
		synctest.Wait()
		select {
		case err := <-d.fate:
			t.Errorf("the batch ended while one waits: %v", err)
		default:
		}
		otherLeaves()
		if err := <-d.fate; !errors.Is(err, context.Canceled) {
			t.Errorf("the batch that nobody waits for: %v", err)
		}
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("who left last: %v", err)
		}
		if err := <-blocker; err != nil {
			t.Error(err)
		}
		d.close()
	})
}

func TestLine_BatchThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		begin := time.Now()
		if err := <-d.asks(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != batchTimeout {
			t.Errorf("ended after %s: %v", time.Since(begin), err)
		}
		d.close()
	})
}

func TestLine_FullLineKeepsWhoComesWaitingAsLongAsHeWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.asks(t.Context(), 1)
		<-d.begun
		for i := range maxWaiting {
			d.asks(t.Context(), i+2)
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := <-d.asks(short, 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		patient := d.asks(t.Context(), 0)
		close(d.end)
		if err := <-patient; err != nil {
			t.Errorf("who waited: %v", err)
		}
		d.asked.Wait()
		d.close()
	})
}

func TestLine_CloseEndsTheBatchUnderWayAndRefusesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		underWay := d.asks(t.Context(), 1)
		<-d.begun
		waiting := []chan error{d.asks(t.Context(), 2), d.asks(t.Context(), 3)}
		for i := range maxWaiting { // and some who have no place yet
			waiting = append(waiting, d.asks(t.Context(), i+4))
		}
		synctest.Wait()
		go d.close()
		synctest.Wait()
		d.end <- struct{}{}
		if err := <-underWay; err != nil {
			t.Errorf("under way: %v", err)
		}
		for _, w := range append(waiting, d.asks(t.Context(), 0)) {
			if err := <-w; !errors.Is(err, errClosed) {
				t.Errorf("waiting: %v", err)
			}
		}
		d.close() // again
	})
}

func TestLine_ACrowdIsWrittenBesideABatchWhereTwoMayWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeskOf(2)
		asks := []chan error{d.asks(t.Context(), 1)}
		<-d.begun
		ask := func(count int) {
			for range count {
				asks = append(asks, d.asks(t.Context(), len(asks)+1))
			}
			synctest.Wait()
		}
		ask(crowd) // the first of them is held for the batch after this one
		if len(d.begun) != 0 {
			t.Errorf("%v is written beside, and %d wait", <-d.begun, crowd-1)
		}
		ask(1)
		if batch := <-d.begun; len(batch) != crowd {
			t.Errorf("%d were written beside, want %d", len(batch), crowd)
		}
		ask(2 * crowd)
		if len(d.begun) != 0 {
			t.Errorf("a third batch was begun: %v", <-d.begun)
		}
		close(d.end)
		for i, a := range asks {
			if err := <-a; err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		d.close()
	})
}

func TestLine_WhoIsNoCrowdWaitsForTheFirstBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeskOf(2)
		asks := []chan error{d.asks(t.Context(), 1)}
		<-d.begun
		asks = append(asks, d.asks(t.Context(), 2))
		synctest.Wait() // it is held for the batch after this one
		ctx, leave := context.WithCancel(t.Context())
		for range crowd {
			d.asks(ctx, 3)
		}
		if beside := <-d.begun; len(beside) != crowd {
			t.Fatalf("%d are written beside", len(beside))
		}
		for n := range crowd - 1 {
			asks = append(asks, d.asks(t.Context(), 4+n))
		}
		synctest.Wait()
		leave() // which ends the batch beside
		synctest.Wait()
		if len(d.begun) != 0 {
			t.Errorf("%v is written beside", <-d.begun)
		}
		d.end <- struct{}{}
		if next := <-d.begun; len(next) != crowd {
			t.Errorf("%d are written next", len(next))
		}
		d.end <- struct{}{}
		for i, a := range asks {
			if err := <-a; err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		d.close()
	})
}

func TestLine_CloseWaitsForBothBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeskOf(2)
		var underWay, waiting []chan error
		for n := range crowd + 2 {
			underWay = append(underWay, d.asks(t.Context(), n+1))
			synctest.Wait()
		}
		waiting = append(waiting, underWay[1]) // who is next is no part of either batch
		underWay = append(underWay[:1], underWay[2:]...)
		for range 2 * crowd {
			waiting = append(waiting, d.asks(t.Context(), 0))
		}
		synctest.Wait()
		if first, beside := <-d.begun, <-d.begun; len(first) != 1 || len(beside) != crowd {
			t.Fatalf("%d and %d are written", len(first), len(beside))
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			d.close()
		}()
		synctest.Wait()
		d.end <- struct{}{}
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed, and a batch is being written")
		default:
		}
		d.end <- struct{}{}
		<-closed
		for _, a := range underWay {
			if err := <-a; err != nil {
				t.Errorf("under way: %v", err)
			}
		}
		for _, w := range waiting {
			if err := <-w; !errors.Is(err, errClosed) {
				t.Errorf("waiting: %v", err)
			}
		}
		if len(d.begun) != 0 {
			t.Errorf("%v was begun after the close", <-d.begun)
		}
	})
}

func TestLine_ContextThatIsDoneAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if err := <-d.asks(done, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		d.close()
		if len(d.begun) != 0 {
			t.Error("it was written")
		}
	})
}
