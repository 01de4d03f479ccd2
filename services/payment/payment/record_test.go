package payment_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// places is how many rows may wait.
const places = 1 << 15

// recording is what Record does in a test.
type recording = func(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error

// stalled is a ledger that hangs until so much time has passed.
func (h *house) stalled(d time.Duration) recording {
	until := time.Now().Add(d)
	return func(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-timer.C:
			return h.store.Store.Record(ctx, rows, by)
		case <-ctx.Done():
			return errors.Join(ledger.ErrUnavailable, ctx.Err())
		}
	}
}

// gone is a ledger that cannot be reached until so much time has passed.
func (h *house) gone(d time.Duration) recording {
	until := time.Now().Add(d)
	return func(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
		if time.Now().Before(until) {
			return errDown
		}
		return h.store.Store.Record(ctx, rows, by)
	}
}

// forgetful is a ledger that stores for so long without saying that it did.
func (h *house) forgetful(d time.Duration) recording {
	until := time.Now().Add(d)
	return func(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
		err := h.store.Store.Record(ctx, rows, by)
		if time.Now().Before(until) {
			return errors.Join(err, errDown)
		}
		return err
	}
}

// rows is how many rows the book has.
func (h *house) rows() int64 {
	h.t.Helper()
	summary, err := h.store.Summarize(context.Background(), "", time.Time{}, time.Time{})
	if err != nil {
		h.t.Fatal(err)
	}
	n := int64(0)
	for _, total := range summary.Totals {
		n += total.Count
	}
	return n
}

// wantRows checks what has become of the inquiries: so many stored, dropped and
// waiting.
func (h *house) wantRows(stored int64, dropped, waiting float64) {
	h.t.Helper()
	synctest.Wait()
	if n := h.rows(); n != stored {
		h.t.Errorf("%d rows, want %d", n, stored)
	}
	if n := h.count("gwanmun_ledger_dropped_total", "inquiry"); n != dropped {
		h.t.Errorf("%v rows dropped, want %v", n, dropped)
	}
	if n := h.gauge("gwanmun_ledger_queue_depth"); n != waiting {
		h.t.Errorf("%v rows wait, want %v", n, waiting)
	}
}

// Every inquiry is answered at once, however the ledger is, and its row is
// stored when the ledger is back: once, also where the ledger stored it before
// without saying so.
func TestBalance_LedgerNeitherSlowsNorLosesAnInquiry(t *testing.T) {
	for name, c := range map[string]struct {
		ledgerIs func(*house, time.Duration) recording
		waits    bool
	}{
		"hangs": {(*house).stalled, true}, "is down": {(*house).gone, true}, "is forgetful": {(*house).forgetful, false},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, inTurn(answers("0000"), answers("0001"), ends(corelink.SentAll, corelink.ErrTimeout), answers("0000")), nil, func(t *testing.T, h *house) {
				const asked = 1200
				h.store.record = c.ledgerIs(h, 5*time.Second)
				start := time.Now()
				for range asked {
					_, _ = h.ask(t.Context())
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("the inquiries took %v", took)
				}
				counted := h.count("gwanmun_ledger_transactions_total", "SUCCESS")
				if counted += h.count("gwanmun_ledger_transactions_total", "FAILED"); counted != asked-1 {
					t.Errorf("%v outcomes are counted while the rows wait, want %d", counted, asked-1)
				}
				time.Sleep(4 * time.Second)
				synctest.Wait()
				if n := h.gauge("gwanmun_ledger_queue_depth"); c.waits && n != asked {
					t.Errorf("%v rows wait, want %d", n, asked)
				}
				time.Sleep(4 * time.Second)
				h.wantRows(asked, 0, 0)
				if h.log.times("ERROR row not recorded") != 0 {
					t.Error("a row is said to be lost")
				}
			})
		})
	}
}

// While one batch is written all that come wait, and are the next one.
func TestBalance_RowsAreWrittenManyAtATime(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		var sizes []int
		h.store.record = func(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
			sizes = append(sizes, len(rows))
			time.Sleep(time.Millisecond)
			return h.store.Store.Record(ctx, rows, by)
		}
		_, _ = h.ask(t.Context())
		synctest.Wait()
		for range 700 {
			_, _ = h.ask(t.Context())
		}
		h.drain()
		if want := []int{1, ledger.MaxRecord, 700 - ledger.MaxRecord}; fmt.Sprint(sizes) != fmt.Sprint(want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
		h.wantRows(701, 0, 0)
	})
}

// While many inquiries come, their rows gather for a moment between two writes. A
// row of few is written at once, and a drain waits for the moment.
func TestBalance_RowsOfManyGather(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		begin := time.Now()
		var wrote []string
		h.store.record = func(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
			wrote = append(wrote, fmt.Sprintf("%d@%v", len(rows), time.Since(begin)))
			time.Sleep(time.Millisecond)
			return h.store.Store.Record(ctx, rows, by)
		}
		ask := func(inquiries int) {
			for range inquiries {
				_, _ = h.ask(t.Context())
			}
			synctest.Wait()
		}
		ask(1)
		time.Sleep(2 * time.Millisecond)
		ask(1) // at once, as the first
		ask(20)
		time.Sleep(4 * time.Millisecond) // the 20 are being written, or are
		ask(5)
		time.Sleep(7500 * time.Microsecond)
		ask(7)
		time.Sleep(20 * time.Millisecond)
		ask(1)
		ask(16)
		time.Sleep(2 * time.Millisecond)
		ask(3)
		h.drain()
		want := "[1@0s 1@2ms 20@3ms 5@13ms 7@14ms 1@33.5ms 16@34.5ms 3@44.5ms]"
		if got := fmt.Sprint(wrote); got != want {
			t.Errorf("rows were written\n%s, want\n%s", got, want)
		}
		h.wantRows(1+1+20+5+7+1+16+3, 0, 0)
	})
}

// A queue that is full holds nobody up. What finds no place is counted, its
// outcome was before, and the loss is told once, until there is room again.
func TestBalance_QueueIsBounded(t *testing.T) {
	const more = 904
	open := &resilience.OpenError{Name: resilience.CoreQuery, State: resilience.Open, RetryAfter: time.Second}
	for name, core := range map[string]exchange{"answers": answers("0000"), "refusals": ends(corelink.SentNone, open)} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, core, nil, func(t *testing.T, h *house) {
				full := "WARN rows not recorded: too many wait"
				for burst := range 2 {
					h.store.record = h.stalled(10 * time.Second)
					start := time.Now()
					for range places + more {
						_, _ = h.ask(t.Context())
					}
					if took := time.Since(start); took != 0 {
						t.Errorf("a stalled ledger held the inquiries up for %v", took)
					}
					h.wantRows(int64(burst*places), float64((burst+1)*more), places)
					if n := h.log.times(full); n != burst+1 {
						t.Errorf("the loss is told %d times in burst %d", n, burst)
					}
					time.Sleep(20 * time.Second)
					h.wantRows(int64((burst+1)*places), float64((burst+1)*more), 0)
					if n := h.log.times("INFO rows are recorded again"); n != burst+1 {
						t.Errorf("the end is told %d times in burst %d", n, burst)
					}
				}
				outcomes := h.count("gwanmun_ledger_transactions_total", "FAILED") + h.count("gwanmun_ledger_transactions_total", "SUCCESS")
				if outcomes != 2*(places+more) {
					t.Errorf("%v outcomes counted, want %d", outcomes, 2*(places+more))
				}
			})
		})
	}
}

// A row that no book may hold, or whose ID is another's, is dropped and said. It
// is not tried for ever, and harms no other.
func TestBalance_BadRowIsDroppedAlone(t *testing.T) {
	for name, cause := range map[string]error{"taken ID": ledger.ErrDuplicateID, "invalid row": ledger.ErrInvalidRow} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
				calls := 0
				h.store.record = func(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
					calls++
					errs := make([]error, len(rows))
					errs[len(rows)/2] = fmt.Errorf("row: %w", cause)
					good := append(append([]ledger.Transaction(nil), rows[:len(rows)/2]...), rows[len(rows)/2+1:]...)
					return errors.Join(&ledger.UnrecordedError{Errs: errs}, h.store.Store.Record(ctx, good, by))
				}
				for range 9 {
					_, _ = h.ask(t.Context())
				}
				h.drain()
				h.wantRows(int64(9-calls), float64(calls), 0)
				if n := h.log.times("ERROR row not recorded"); n != calls {
					t.Errorf("said %d times of %d", n, calls)
				}
			})
		})
	}
}

// Of a batch that the ledger took in part, the rest is tried again.
func TestBalance_RestOfABatchIsTriedAgain(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		broke, asked := false, make(chan struct{})
		h.store.record = func(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
			<-asked // so that the rows behind the first wait together
			if broke || len(rows) < 2 {
				return h.store.Store.Record(ctx, rows, by)
			}
			broke = true
			errs := make([]error, len(rows))
			for i := 1; i < len(rows); i++ {
				errs[i] = errDown
			}
			return errors.Join(&ledger.UnrecordedError{Errs: errs}, h.store.Store.Record(ctx, rows[:1], by))
		}
		for range 9 {
			_, _ = h.ask(t.Context())
		}
		close(asked)
		h.drain()
		h.wantRows(9, 0, 0)
		if !broke {
			t.Error("nothing broke")
		}
	})
}

// What the ledger refuses as a whole, for no reason that waiting mends, does not
// keep the rows after it waiting for ever.
func TestBalance_FaultOfTheLedgerEnds(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.store.record = func(context.Context, []ledger.Transaction, ledger.Actor) error { return errors.New("a fault") }
		_, _ = h.ask(t.Context())
		time.Sleep(time.Minute)
		h.wantRows(0, 1, 0)
		if n := h.log.times("ERROR rows given up"); n != 1 {
			t.Errorf("said %d times", n)
		}
		h.store.record = nil
		_, _ = h.ask(t.Context())
		h.wantRows(1, 1, 0)
	})
}

// A drain writes what waits while it has time, and counts and says what it could
// not write, in a moment.
func TestDrain_Rows(t *testing.T) {
	for name, c := range map[string]struct {
		ledgerIs func(*house, time.Duration) recording
		back     time.Duration
		stored   int64
	}{
		"ledger hangs for a while":   {(*house).stalled, 9 * time.Second, 600},
		"ledger is down for a while": {(*house).gone, 9 * time.Second, 600},
		"ledger hangs":               {(*house).stalled, time.Hour, 0},
		"ledger is down":             {(*house).gone, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
				h.store.record = c.ledgerIs(h, c.back)
				for range 600 {
					_, _ = h.ask(t.Context())
				}
				ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
				defer cancel()
				start := time.Now()
				err := h.service.Drain(ctx)
				h.wantRows(c.stored, float64(600-c.stored), 0)
				if lost := c.stored == 0; lost != errors.Is(err, context.DeadlineExceeded) || lost && h.log.times("ERROR rows given up") == 0 {
					t.Errorf("drain: %v", err)
				}
				if took := time.Since(start); took > 14*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// As long as there are transaction numbers, and then a reserve, an inquiry asks
// the ledger nothing.
func TestBalance_NeedsNoLedgerWhileThereAreNumbers(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		var down atomic.Bool
		h.store.nextBlock = func(ctx context.Context, day tranid.Date, count, floor int64) (tranid.Block, error) {
			if down.Load() {
				return tranid.Block{}, errDown
			}
			return h.store.Store.NextBlock(ctx, day, count, floor)
		}
		h.service.Warm()
		time.Sleep(10 * time.Second)
		down.Store(true)
		h.store.record = h.gone(time.Second)
		start := time.Now()
		for range 20_000 {
			if _, err := h.ask(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the inquiries took %v", took)
		}
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonLedgerUnavailable)
	})
}

var _ payment.Core = (*resilience.Gate)(nil)
