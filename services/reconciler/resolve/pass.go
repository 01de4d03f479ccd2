package resolve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

const (
	// silenceLimit is how many rows in a row the core may leave unanswered
	// before a pass takes it for unreachable and spares the rest.
	silenceLimit = 5
	// hastyPerSilence is how many that were given a moment only count like one that
	// was waited for.
	hastyPerSilence = 8
	// claimsAtOnce is how many claims of a lane are under way at most.
	claimsAtOnce = 4
	// releaseTime bounds the release of claims when a pass ends.
	releaseTime = 2 * time.Second
)

// What ends a pass early: that the core answers nothing, or that there is no way
// to it.
var (
	errSilent = errors.New("the core does not answer")
	errNoWay  = errors.New("there is no way to the core")
)

// pass resolves the due rows of a lane with a crew that shares one queue: a row that
// takes long holds its worker and nothing else. What was claimed and not begun is
// given back when the pass ends.
type pass struct {
	r     *Resolver
	lane  *lane
	queue chan dueRow
	// more is asked for rows by a worker that found none.
	more  chan struct{}
	begun begun
	// over is closed when there is no point in going on; err says why.
	over chan struct{}

	mu      sync.Mutex
	err     error
	silence int
	// noWay: there was none to the core, for one row at least.
	noWay bool
	// unended are the tokens of claims that did not end by themselves.
	unended map[string]struct{}
}

// dueRow is a row that was claimed, whether it is one of a crowd, and whether it was
// claimed to be waited for.
type dueRow struct {
	ledger.Claim
	crowd, single bool
}

func newPass(r *Resolver, l *lane) *pass {
	return &pass{
		r: r, lane: l,
		queue: make(chan dueRow), more: make(chan struct{}, 1), over: make(chan struct{}), unended: map[string]struct{}{},
		begun: newBegun(),
	}
}

// run resolves what is due, and what is hastened while workers have rows, and returns
// why it ended early, if it did. Rows that are begun come to an end even when ctx is
// done, within StopGrace.
func (p *pass) run(ctx context.Context, until time.Time) error {
	rows, stop := outlive(ctx, p.r.opts.StopGrace)
	defer stop()
	var crew sync.WaitGroup
	hire := func(workers int) {
		for range workers {
			crew.Go(func() { p.work(rows) })
		}
	}
	hire(p.lane.hand.least)
	more := sync.OnceFunc(func() { hire(p.lane.hand.most - p.lane.hand.least) })
	err := p.dispatchAll(ctx, until, more)
	for err == nil && p.lingers(ctx, until) {
		err = p.dispatchAll(ctx, until, more)
	}
	close(p.queue)
	crew.Wait()
	// Only now: a token may cover rows that were still being resolved.
	p.release(ctx)
	if p.lane.wanted.Load() { // too late for this pass
		p.lane.wake()
	}
	return errors.Join(err, p.err)
}

// dispatchAll is dispatch and, where there are many rows, more workers, and others
// that claim as it does as long as workers find no row: none waits until the ledger
// has found some.
func (p *pass) dispatchAll(ctx context.Context, until time.Time, hire func()) error {
	ended, errs := make(chan struct{}), make([]error, claimsAtOnce)
	var others sync.WaitGroup
	many := sync.OnceFunc(func() {
		hire()
		for i := range claimsAtOnce - 1 {
			others.Go(func() { errs[i] = guarded(func() error { return p.assist(ctx, until, ended) }) })
		}
	})
	errs[claimsAtOnce-1] = guarded(func() error { return p.dispatch(ctx, until, many) })
	close(ended)
	others.Wait()
	return errors.Join(errs...)
}

// assist claims rows as dispatch does, when a worker asks for them, until that ends
// or no more are due.
func (p *pass) assist(ctx context.Context, until time.Time, ended <-chan struct{}) error {
	for p.goesOn(ctx, until) {
		select {
		case <-p.more:
		case <-ended:
			return nil
		case <-p.over:
			return nil
		case <-ctx.Done():
			return nil
		}
		if n, err := p.claimAndHand(ctx, p.lane.oldest(p.r.opts.Flags.Lease)); err != nil || n < ledger.MaxClaim {
			return err
		}
	}
	return nil
}

// dispatch claims rows and hands them to the workers: of those in review one
// batch, unless some were hastened, of the others until none is due or time is up.
// What was abandoned is adopted on the way, so that thousands of it keep nothing else
// waiting. There may be enough for others, too, once it has found as many as one claim
// may have.
func (p *pass) dispatch(ctx context.Context, until time.Time, many func()) error {
	adopting, hastened := p.lane.first, false
	for p.goesOn(ctx, until) {
		hastened = p.lane.hastened(p.r.opts.Now()) || hastened
		adopting = adopting && p.r.adopt(ctx, p.lane)
		n, err := p.claimAndHand(ctx, p.lane.next(p.r.opts.Flags.Lease))
		switch {
		case err != nil:
			return err
		case p.lane.again && n > 0: // its ends are taken in turns, by one
		case p.lane.review && n == ledger.MaxClaim && hastened:
		case p.lane.review, n < ledger.MaxClaim && !adopting:
			return nil
		case n == ledger.MaxClaim:
			many()
		}
	}
	return nil
}

func (p *pass) goesOn(ctx context.Context, until time.Time) bool {
	return ctx.Err() == nil && p.r.opts.Now().Before(until) && !p.ended()
}

// claimAndHand makes one claim, and returns how many rows it found.
func (p *pass) claimAndHand(ctx context.Context, o ledger.ClaimOptions) (int, error) {
	// A row is begun while half of its lease is left: but for a core that is
	// all but silent, the lease outlasts it.
	begin := time.NewTimer(p.r.opts.Flags.Lease / 2)
	defer begin.Stop()
	claims, err := p.claim(ctx, o)
	if err != nil {
		return 0, fmt.Errorf("claim due transactions: %w", err)
	}
	p.hand(ctx, claims, o.Limit == 1, begin.C)
	return len(claims), nil
}

// claim goes on when ctx ends: rows that were claimed by a call that was given
// up could not be given back.
func (p *pass) claim(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), ledgerTime)
	defer stop()
	return p.r.store.Claim(ctx, o)
}

// hand gives claims to the workers as they become free, and keeps the rest for
// release when the pass is over, is told to stop, or the leases grow old.
func (p *pass) hand(ctx context.Context, claims []ledger.Claim, single bool, tooLate <-chan time.Time) {
	crowd := p.lane.crowded(len(claims))
	for i, claim := range claims {
		if !p.ended() && ctx.Err() == nil && !isOver(tooLate) {
			p.begun.enter()
			select {
			case p.queue <- dueRow{claim, crowd, single}:
				continue
			case <-p.over:
			case <-ctx.Done():
			case <-tooLate:
			}
			p.begun.leave()
		}
		for _, left := range claims[i:] {
			p.leave(left.Token)
		}
		return
	}
}

// work resolves one row after the other, each from when it may be in hand and there
// is a place for it at the core.
func (p *pass) work(ctx context.Context) {
	for {
		select {
		case <-p.lane.hand.free:
		case <-ctx.Done():
			return
		}
		goesOn := p.workOne(ctx)
		p.lane.hand.leave()
		if !goesOn {
			return
		}
	}
}

// workOne resolves one row, and reports whether there may be another.
func (p *pass) workOne(ctx context.Context) bool {
	if p.lane.inquiries.enter(ctx) != nil {
		return false
	}
	turn := p.lane.turn()
	defer turn.leave()
	row, ok := p.take()
	if ok {
		defer p.begun.leave()
		turn.brief = turn.brief || row.crowd
		if row.single {
			p.lane.singles.Add(1)
			defer p.lane.singles.Add(-1)
		}
		p.resolveGuarded(ctx, turn, row.Claim)
	}
	return ok
}

// take is the next row, for which more is claimed if there is none yet.
func (p *pass) take() (dueRow, bool) {
	select {
	case row, ok := <-p.queue:
		return row, ok
	default:
	}
	select {
	case p.more <- struct{}{}:
	default:
	}
	row, ok := <-p.queue
	return row, ok
}

// resolveGuarded is resolve, of which nothing that happens reaches another row.
func (p *pass) resolveGuarded(ctx context.Context, t turn, claim ledger.Claim) {
	if err := guarded(func() error { p.resolve(ctx, t, claim); return nil }); err != nil {
		p.r.poison.add(claim.Transaction.ID)
		p.r.logFault(ctx, "transaction not put aside", err, "transaction_id", claim.Transaction.ID)
	}
}

// resolve makes one attempt at one row.
func (p *pass) resolve(ctx context.Context, t turn, claim ledger.Claim) {
	ctx, stop := context.WithTimeout(ctx, p.r.rowTime())
	defer stop()
	id := claim.Transaction.ID
	if claim.Err != nil {
		p.poisoned(ctx, claim, claim.Err)
		return
	}
	if correlation := claim.Transaction.CorrelationID; correlation != "" {
		ctx = telemetry.WithCorrelationID(ctx, correlation)
	}
	due := p.r.hints.dueBefore(id)
	if due.After(claim.At) { // or it would be this pass's anyway
		t.hinted, claim.Transaction.NextResolveAt = true, due
	}
	a, err := p.r.attempt(ctx, t, claim, p.r.sweeper())
	p.heard(a.reply)
	switch {
	case err == nil && a.reply == replyUnsent:
		p.leave(claim.Token)
		p.r.hints.note(id, func(r *rest) { r.due = due })
	case err == nil:
		p.r.poison.remove(id)
	case ctx.Err() != nil:
		p.leave(claim.Token)
		p.r.log.WarnContext(ctx, "resolution abandoned", "transaction_id", id, "error", err)
	case errors.Is(err, ledger.ErrUnavailable):
		p.leave(claim.Token)
		p.end(err)
	default:
		p.poisoned(ctx, claim, err)
	}
}

// poisoned puts aside a row that failed on our side. One that cannot even be
// read needs a human; one whose resolution failed is asked again like one that
// the core did not answer.
func (p *pass) poisoned(ctx context.Context, claim ledger.Claim, cause error) {
	id := claim.Transaction.ID
	p.r.poison.add(id)
	p.r.logFault(ctx, "transaction not resolved", cause, "transaction_id", id)
	aside := ledger.Postponement{
		ID: id, Token: claim.Token, By: p.r.sweeper(), Delay: p.r.plan.jitter(p.r.plan.sweep),
	}
	if claim.Err != nil {
		aside.Delay, aside.NeedsReview = p.r.plan.jitter(backoffCap), !p.lane.owed
		if !p.lane.review && !p.lane.owed {
			aside.Detail = "the row cannot be read: needs review"
		}
	}
	if err := p.r.store.Postpone(ctx, aside); err != nil && !errors.Is(err, ledger.ErrLost) {
		// Its lease keeps it aside as well.
		p.r.log.WarnContext(ctx, "transaction not put aside", "transaction_id", id, "error", err)
	}
}

// heard ends the pass when the core has left too many rows in a row unanswered.
func (p *pass) heard(r reply) {
	p.mu.Lock()
	why := errSilent
	switch r {
	case replyAnswered:
		p.silence = 0
	case replyUnsent:
		why, p.noWay = errNoWay, true
		p.silence += hastyPerSilence
	case replySilent:
		p.silence += hastyPerSilence
	case replyHasty:
		p.silence++
	case replyIgnored: // says nothing of the core
	}
	silent := p.silence >= silenceLimit*hastyPerSilence
	p.mu.Unlock()
	if silent {
		p.end(why)
	}
}

// end ends the pass; the first reason counts.
func (p *pass) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.over)
	}
}

func (p *pass) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

func (p *pass) leave(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unended[token] = struct{}{}
}

// release gives back what was claimed and did not come to an end. Should it
// fail, the leases run out by themselves.
func (p *pass) release(ctx context.Context) {
	if len(p.unended) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer stop()
	for token := range p.unended {
		if err := p.r.store.Release(ctx, token); err != nil {
			p.r.log.WarnContext(ctx, "claims not released", "error", err)
			return
		}
	}
}
