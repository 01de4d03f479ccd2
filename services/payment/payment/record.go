package payment

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

const (
	// maxBehind is how many rows may wait to be written behind their answers, for
	// seconds at the rate at which a core answers inquiries; a row takes about a
	// kibibyte of memory. What finds no place is counted and said.
	maxBehind = 1 << 15
	// maxSpare is the most room that is kept for rows to come.
	maxSpare = maxBehind / 8
	// roomAgain is how few must wait for a queue that was full to be called so no
	// longer: a loss is told once, and not each time that one place is free.
	roomAgain = maxBehind / 2
	// After a write of many rows the next one begins gatherFor after it at the
	// earliest: while many come, they are written with fewer commits, for which
	// nobody waits.
	many      = 16
	gatherFor = 10 * time.Millisecond
	// recordTimeout bounds one try to write rows behind the answers.
	recordTimeout = 5 * time.Second
	// maxFaults is how often rows are tried that the ledger refuses, all of them,
	// for a reason that waiting does not mend: what comes after them must not wait
	// for ever.
	maxFaults = 10
)

// What may be dropped, as its counter names it.
const (
	droppedOutcome = "outcome"
	droppedInquiry = "inquiry"
	droppedRefusal = "refusal"
)

// drops counts what is dropped.
type drops struct{ outcome, inquiry, refusal prometheus.Counter }

func newDrops(registry prometheus.Registerer) drops {
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gwanmun_ledger_dropped_total",
		Help: "Rows that the ledger did not take: an inquiry's row that is lost, or a payment's outcome that the reconciler must find out.",
	}, []string{"reason"})
	registry.MustRegister(dropped)
	return drops{
		outcome: dropped.WithLabelValues(droppedOutcome),
		inquiry: dropped.WithLabelValues(droppedInquiry),
		refusal: dropped.WithLabelValues(droppedRefusal),
	}
}

// row counts a row that is dropped: an inquiry's, or that of a payment which was
// refused before it had an intent.
func (d drops) row(t *ledger.Transaction) {
	if t.Kind.MovesMoney() {
		d.refusal.Inc()
	} else {
		d.inquiry.Inc()
	}
}

// record counts the outcome of a transaction that ended without an intent, an
// inquiry or a payment that was refused, and has its row written behind the
// answer.
func (s *Service) record(ctx context.Context, t *ledger.Transaction) {
	s.settled[t.Status].Inc()
	s.behind.add(ctx, t)
}

// recorder writes the rows of what ended without an intent behind the answers:
// an inquiry must not wait for the ledger, nor a refusal. One writer takes all
// that wait. While the ledger is down or hangs they are kept and tried again,
// until they are stored or the process ends.
type recorder struct {
	book   ledger.Writer
	by     ledger.Actor
	logger *slog.Logger
	drops  drops
	// quit ends the tries; what is not stored by then is lost.
	quit context.Context //nolint:containedctx // the life of the writer, whoever starts it

	// writes counts the writer while there is one.
	writes sync.WaitGroup

	mu sync.Mutex
	// waiting are the rows that the writer has not taken, spare what it took
	// before.
	waiting, spare []ledger.Transaction
	// depth is how many rows are neither stored nor lost.
	depth   int
	writing bool
	// full is true from a row that found no place until there is room again;
	// overflow is how many found none in that time.
	full     bool
	overflow int
	// closed is true when nothing more is written.
	closed bool
}

// add takes a row to be written. It does not wait.
func (r *recorder) add(ctx context.Context, t *ledger.Transaction) {
	placed, first := r.place(t) //nolint:contextcheck // the writer serves all calls, and ends with none of theirs
	if placed {
		return
	}
	r.drops.row(t)
	if first {
		r.logger.WarnContext(ctx, "rows not recorded: too many wait", "waiting", maxBehind)
	}
}

// place puts a row on the queue and sees to it that there is a writer. It reports
// whether there was a place, and of a row without one whether it is the first.
func (r *recorder) place(t *ledger.Transaction) (placed, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.depth >= maxBehind {
		first = !r.full
		r.full = true
		r.overflow++
		return false, first
	}
	r.depth++
	r.waiting = append(r.waiting, *t)
	if !r.writing {
		r.writing = true
		r.writes.Add(1)
		go r.write()
	}
	return true, false
}

// write writes rows until none waits.
func (r *recorder) write() {
	defer r.writes.Done()
	for {
		rows := r.take()
		if len(rows) == 0 {
			return
		}
		begun, count := time.Now(), len(rows)
		for batch := range slices.Chunk(rows, ledger.MaxRecord) {
			r.store(batch)
		}
		clear(rows)
		if cap(rows) <= maxSpare {
			r.mu.Lock()
			r.spare = rows[:0]
			r.mu.Unlock()
		}
		if rest := gatherFor - time.Since(begun); count >= many && rest > 0 {
			sleep(r.quit, rest)
		}
	}
}

// take is all that wait; the writer ends when none does.
func (r *recorder) take() []ledger.Transaction {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := r.waiting
	r.waiting, r.spare = r.spare, nil
	r.writing = len(rows) > 0
	return rows
}

// store writes rows, however long the ledger does not take them. It reorders
// them.
func (r *recorder) store(rows []ledger.Transaction) {
	faults, tries := 0, 0
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		ctx, cancel := context.WithTimeout(r.quit, recordTimeout)
		err := r.book.Record(ctx, rows, r.by)
		cancel()
		left := r.settle(rows, err, tries > 0)
		r.done(len(rows) - len(left))
		rows = left
		if len(rows) == 0 {
			break
		}
		if tries++; tries == 1 {
			r.logger.WarnContext(r.quit, "rows wait: the ledger does not take them", "count", len(rows), "error", err)
		}
		if !errors.Is(err, ledger.ErrUnavailable) {
			faults++
		}
		if faults == maxFaults || !sleep(r.quit, wait) {
			r.lose(rows, err)
			return
		}
	}
	if tries > 0 {
		r.logger.InfoContext(r.quit, "the ledger takes rows again", "tries", tries+1)
	}
}

// settle sorts rows by what became of them, and returns those to be tried again.
// Where they were tried before, that try may have stored them without saying so:
// an ID that is taken is then the row's own.
func (r *recorder) settle(rows []ledger.Transaction, err error, tried bool) []ledger.Transaction {
	if err == nil {
		return nil
	}
	var some *ledger.UnrecordedError
	if !errors.As(err, &some) || len(some.Errs) != len(rows) {
		return rows
	}
	left := rows[:0]
	for i, err := range some.Errs {
		switch {
		case err == nil, tried && errors.Is(err, ledger.ErrDuplicateID):
		case errors.Is(err, ledger.ErrUnavailable):
			left = append(left, rows[i])
		default:
			r.drops.row(&rows[i])
			r.logger.ErrorContext(r.quit, "row not recorded",
				"transaction_id", rows[i].ID, "kind", rows[i].Kind.String(), "error", err)
		}
	}
	return left
}

// lose gives rows up.
func (r *recorder) lose(rows []ledger.Transaction, cause error) {
	for i := range rows {
		r.drops.row(&rows[i])
	}
	r.done(len(rows))
	r.logger.ErrorContext(r.quit, "rows given up", "count", len(rows), "error", cause)
}

// done takes so many rows off the queue's depth, and says so when a queue that
// was full has room again.
func (r *recorder) done(n int) {
	r.mu.Lock()
	r.depth -= n
	lost, over := r.overflow, r.full && r.depth <= roomAgain
	if over {
		r.full, r.overflow = false, 0
	}
	r.mu.Unlock()
	if over {
		r.logger.InfoContext(r.quit, "rows are recorded again", "lost", lost)
	}
}

// close lets no further row wait, so that the writer comes to an end.
func (r *recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
}

// unstored is how many rows are neither stored nor lost.
func (r *recorder) unstored() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return float64(r.depth)
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
