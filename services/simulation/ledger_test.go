package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Why a call of the ledger did not do what it should, or did not say so.
var (
	errDown  = fmt.Errorf("%w: the database does not answer", ledger.ErrUnavailable)
	errDoubt = fmt.Errorf("%w: the connection was lost in COMMIT", ledger.ErrUnavailable)
	errDead  = fmt.Errorf("%w: this process is dead", ledger.ErrUnavailable)
)

// ledgerLink is the ledger as one process has it: some time away, and not always
// there. A request that is under way goes on when its caller gives up, or dies. What
// is done is done at one moment, and the auditor hears of it at that moment.
type ledgerLink struct {
	ledger.Store // the ledger itself, and its older copies
	p            *process

	mu    sync.Mutex
	times map[string]int
}

func newLedgerLink(p *process) *ledgerLink {
	l := &ledgerLink{p: p, times: map[string]int{}}
	l.Store = &copies{p.world.book, l}
	return l
}

// die is that of the next call of this name.
func (l *ledgerLink) die(name string) dice {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[name]++
	return l.p.dice.of("ledger").of(name).nth(l.times[name])
}

// request is one call of the ledger.
type request struct {
	name string
	id   tranid.ID
	die  dice
	// saw are the rows that it may have changed; nil for a call that only reads.
	saw func() []tranid.ID
}

type answered[T any] struct {
	value T
	err   error
}

// ask makes a call of the ledger.
func ask[T any](ctx context.Context, l *ledgerLink, r request, do func(context.Context) (T, error)) (T, error) {
	var zero T
	r.die = l.die(r.name + string(r.id))
	l.p.awake(r.die.of("before"))
	if l.p.isDead() {
		return zero, errDead
	}
	came := make(chan answered[T], 1)
	l.p.world.run(func() {
		value, err := serve(ctx, l, &r, do)
		came <- answered[T]{value, err}
	})
	select {
	case a := <-came:
		l.p.awake(r.die.of("behind"))
		if l.p.isDead() {
			return zero, errDead
		}
		return a.value, a.err
	case <-ctx.Done():
		// Many may give up at one moment; each goes on at one of its own.
		time.Sleep(r.die.of("gives up").between(time.Microsecond, 200*time.Microsecond))
		return zero, fmt.Errorf("%w: %w", ledger.ErrUnavailable, ctx.Err())
	case <-l.p.dead:
		return zero, errDead
	}
}

// serve is what becomes of a call at the database, and on the ways there and back.
func serve[T any](ctx context.Context, l *ledgerLink, r *request, do func(context.Context) (T, error)) (T, error) {
	var zero T
	w := l.p.world
	if err := l.reach(ctx, r); err != nil {
		return zero, err
	}
	doubt := w.active(ledgerDoubt, l.p.slot)
	failed := doubt != nil && r.die.of("fails").chance(doubt.odds)
	if failed && r.die.of("before").chance(0.5) {
		return zero, errDown
	}
	dies := r.saw != nil && l.diesNow()
	if dies && r.die.of("dies before").chance(0.4) {
		l.p.kill("within " + r.name)
		return zero, errDead
	}
	value, err := do(context.WithoutCancel(ctx))
	if r.saw != nil {
		l.tell(r, err)
	}
	if dies {
		l.p.kill("behind " + r.name)
		return zero, errDead
	}
	time.Sleep(r.die.of("back").between(20*time.Microsecond, 400*time.Microsecond))
	if failed && r.saw != nil {
		return zero, errDoubt
	}
	return value, err
}

// reach takes the time to the database, and the trouble.
func (l *ledgerLink) reach(ctx context.Context, r *request) error {
	w := l.p.world
	time.Sleep(r.die.of("there").between(30*time.Microsecond, 900*time.Microsecond))
	if slow := w.active(ledgerSlow, l.p.slot); slow != nil {
		time.Sleep(r.die.of("slow").between(0, slow.amount))
	}
	if down := w.active(ledgerDown, l.p.slot); down != nil {
		if down.die.chance(0.5) {
			return errDown
		}
		time.Sleep(down.until - w.elapsed() + r.die.of("after").between(0, 20*time.Millisecond))
	}
	// A server notices at times that nobody waits any more.
	if (ctx.Err() != nil || l.p.isDead()) && r.die.of("dropped").chance(0.5) {
		return errDown
	}
	return nil
}

// diesNow reports whether the process is to die in this call.
func (l *ledgerLink) diesNow() bool {
	e := l.p.world.active(crashInLedger, l.p.slot)
	return e != nil && l.p.world.first(e)
}

// tell has the auditor look at what was committed.
func (l *ledgerLink) tell(r *request, err error) {
	ids := r.saw()
	var lost *ledger.LostError
	switch {
	case err == nil:
	case errors.As(err, &lost):
		l.p.say(r.id, "%s is lost to %s", r.name, lost.Current.Status)
	default:
		l.p.say(r.id, "%s: %v", r.name, err)
	}
	for _, id := range ids {
		l.p.world.look(l.p.name, r.name, id)
	}
}

func only(id tranid.ID) func() []tranid.ID { return func() []tranid.ID { return []tranid.ID{id} } }

func nothing() []tranid.ID { return nil }

// CreateIntent and what follows are ledger.Store.
func (l *ledgerLink) CreateIntent(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
	r := request{name: "CreateIntent", id: in.ID, saw: only(in.ID)}
	return ask(ctx, l, r, func(ctx context.Context) (ledger.Admission, error) { return l.Store.CreateIntent(ctx, in) })
}

func (l *ledgerLink) Record(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
	rows = append([]ledger.Transaction(nil), rows...) // the caller uses them again
	ids := make([]tranid.ID, 0, len(rows))
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	r := request{name: "Record", id: ids[0], saw: func() []tranid.ID { return ids }}
	return l.askErr(ctx, r, func(ctx context.Context) error { return l.Store.Record(ctx, rows, by) })
}

// askErr is ask for what returns nothing else.
func (l *ledgerLink) askErr(ctx context.Context, r request, do func(context.Context) error) error {
	_, err := ask(ctx, l, r, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

func (l *ledgerLink) Transition(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
	r := request{name: fmt.Sprintf("Transition %s %s", c.From, c.To), id: c.ID, saw: only(c.ID)}
	return ask(ctx, l, r, func(ctx context.Context) (ledger.Transaction, error) { return l.Store.Transition(ctx, c) })
}

func (l *ledgerLink) AppendEvent(ctx context.Context, id tranid.ID, e ledger.Evidence, by ledger.Actor, detail string) error {
	r := request{name: "AppendEvent", id: id, saw: only(id)}
	return l.askErr(ctx, r, func(ctx context.Context) error { return l.Store.AppendEvent(ctx, id, e, by, detail) })
}

func (l *ledgerLink) Repay(ctx context.Context, p ledger.Repayment) (ledger.Transaction, error) {
	r := request{name: "Repay", id: p.ID, saw: only(p.ID)}
	return ask(ctx, l, r, func(ctx context.Context) (ledger.Transaction, error) { return l.Store.Repay(ctx, p) })
}

func (l *ledgerLink) Hasten(ctx context.Context, id tranid.ID) (bool, error) {
	r := request{name: "Hasten", id: id, saw: only(id)}
	return ask(ctx, l, r, func(ctx context.Context) (bool, error) { return l.Store.Hasten(ctx, id) })
}

func (l *ledgerLink) Adopt(ctx context.Context, limit int, by ledger.Actor) (int, error) {
	adopted := 0
	r := request{name: "Adopt", saw: func() []tranid.ID {
		if adopted == 0 {
			return nil
		}
		return l.p.world.open()
	}}
	return ask(ctx, l, r, func(ctx context.Context) (int, error) {
		var err error
		adopted, err = l.Store.Adopt(ctx, limit, by)
		return adopted, err
	})
}

func (l *ledgerLink) Claim(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
	r := request{name: fmt.Sprintf("Claim %t %d %t %t", o.Review, o.Only, o.Newest, o.Owed), saw: nothing}
	return ask(ctx, l, r, func(ctx context.Context) ([]ledger.Claim, error) { return l.Store.Claim(ctx, o) })
}

func (l *ledgerLink) ClaimOne(ctx context.Context, id tranid.ID, lease time.Duration, by ledger.Actor) (ledger.Claim, error) {
	r := request{name: "ClaimOne", id: id, saw: only(id)}
	return ask(ctx, l, r, func(ctx context.Context) (ledger.Claim, error) { return l.Store.ClaimOne(ctx, id, lease, by) })
}

func (l *ledgerLink) Decide(ctx context.Context, id tranid.ID, by ledger.Actor, detail string) (ledger.Transaction, error) {
	r := request{name: "Decide", id: id, saw: only(id)}
	return ask(ctx, l, r, func(ctx context.Context) (ledger.Transaction, error) { return l.Store.Decide(ctx, id, by, detail) })
}

func (l *ledgerLink) Postpone(ctx context.Context, p ledger.Postponement) error {
	r := request{name: "Postpone", id: p.ID, saw: only(p.ID)}
	return l.askErr(ctx, r, func(ctx context.Context) error { return l.Store.Postpone(ctx, p) })
}

func (l *ledgerLink) Release(ctx context.Context, token string) error {
	return l.askErr(ctx, request{name: "Release", saw: nothing}, func(ctx context.Context) error { return l.Store.Release(ctx, token) })
}

func (l *ledgerLink) Get(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
	return ask(ctx, l, request{name: "Get", id: id}, func(ctx context.Context) (ledger.Transaction, error) { return l.Store.Get(ctx, id) })
}

func (l *ledgerLink) Events(ctx context.Context, id tranid.ID) ([]ledger.Event, error) {
	return ask(ctx, l, request{name: "Events", id: id}, func(ctx context.Context) ([]ledger.Event, error) { return l.Store.Events(ctx, id) })
}

func (l *ledgerLink) GetByKey(ctx context.Context, c ledger.ClientID, k ledger.IdempotencyKey) (ledger.Transaction, error) {
	r := request{name: "GetByKey " + string(c) + string(k)}
	return ask(ctx, l, r, func(ctx context.Context) (ledger.Transaction, error) { return l.Store.GetByKey(ctx, c, k) })
}

func (l *ledgerLink) Bound(
	ctx context.Context, c ledger.ClientID, k ledger.IdempotencyKey, f ledger.Hash,
) (ledger.Transaction, error) {
	r := request{name: "Bound " + string(c) + string(k)}
	return ask(ctx, l, r, func(ctx context.Context) (ledger.Transaction, error) { return l.Store.Bound(ctx, c, k, f) })
}

func (l *ledgerLink) NextBlock(ctx context.Context, day tranid.Date, count, floor int64) (tranid.Block, error) {
	r := request{name: fmt.Sprintf("NextBlock %s %d", day, count), saw: nothing}
	return ask(ctx, l, r, func(ctx context.Context) (tranid.Block, error) { return l.Store.NextBlock(ctx, day, count, floor) })
}

func (l *ledgerLink) PurgeKeys(ctx context.Context, limit int) (ledger.Purge, error) {
	r := request{name: "PurgeKeys", saw: nothing}
	return ask(ctx, l, r, func(ctx context.Context) (ledger.Purge, error) { return l.Store.PurgeKeys(ctx, limit) })
}

func (l *ledgerLink) Backlog(ctx context.Context) (ledger.Backlog, error) {
	return ask(ctx, l, request{name: "Backlog"}, l.Store.Backlog)
}
