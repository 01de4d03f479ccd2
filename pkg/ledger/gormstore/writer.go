package gormstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// errOvertaken says that between two statements another call bound the key.
var errOvertaken = errors.New("the key was bound again meanwhile")

// CreateIntent implements ledger.Writer. Intents that come at once are stored
// together.
func (s *Store) CreateIntent(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
	question, err := newIntention(&in)
	if err != nil {
		return ledger.Admission{}, fmt.Errorf("create intent: %w", err)
	}
	admission, err := together(ctx, s, s.intents, question, asking[*ledger.Admission]{
		doing: "create intent " + string(question.ID),
		alone: func(ctx context.Context, why error) (*ledger.Admission, error) {
			var commit *commitError
			return s.createIntent(ctx, &question.Intent, errors.As(why, &commit))
		},
	})
	if err != nil {
		return ledger.Admission{}, err
	}
	return *admission, nil
}

// createIntent stores an intent alone. When COMMIT errs, or has erred, the intent
// may be stored: it is tried again with the same ID, and then finds itself.
func (s *Store) createIntent(ctx context.Context, in *ledger.Intent, inDoubt bool) (admission *ledger.Admission, err error) {
	again := func(err error) bool {
		var commit *commitError
		inDoubt = inDoubt || errors.As(err, &commit)
		return err != nil && !s.isVerdict(err) &&
			(inDoubt || errors.Is(err, errOvertaken) || s.writeAgain(err))
	}
	err = s.noted(s.try(ctx, "create intent "+string(in.ID), again, func(ctx context.Context) error {
		return s.transact(ctx, func(tx *gorm.DB) (err error) {
			admission, err = s.admit(tx, in)
			return err
		})
	}))
	if err != nil {
		return nil, err
	}
	return admission, nil
}

// asking is what is asked of a line, and how the row is written alone if it was
// not settled with its batch.
type asking[A any] struct {
	doing string
	alone func(ctx context.Context, why error) (A, error)
}

// together has a row written with those of others.
func together[Q, A any](ctx context.Context, s *Store, l *line[Q, A], question Q, o asking[A]) (A, error) {
	var none A
	if err := s.ready(); err != nil {
		return none, fmt.Errorf("%s: %w: %w", o.doing, ledger.ErrUnavailable, err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	answer, err := l.ask(ctx, question)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, errAlone):
		return o.alone(ctx, err)
	case s.isVerdict(err):
		return none, fmt.Errorf("%s: %w", o.doing, err)
	default:
		return none, s.noted(fmt.Errorf("%s: %w: %w", o.doing, ledger.ErrUnavailable, err))
	}
}

// keyRow is whom a key is bound to, and until when at least.
type keyRow struct {
	Fingerprint   []byte
	TransactionID string
	ExpiresAt     instant
	Clock         instant
}

// errNoKeyLife says that nobody knows whether a key may be bound again.
var errNoKeyLife = fmt.Errorf("%w: the end of a key's life: %w", ledger.ErrUnreadable, errNoTime)

// admit binds the key and stores the row, or finds who has the key. The first
// statement waits for any other call that is binding the same key.
func (s *Store) admit(tx *gorm.DB, in *ledger.Intent) (*ledger.Admission, error) {
	var clock []instant
	err := tx.Raw(`INSERT INTO idempotency_keys
	(client_id, idempotency_key, fingerprint, business_date, transaction_id, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (client_id, idempotency_key) DO NOTHING RETURNING created_at`,
		string(in.Client), string(in.Key), in.Fingerprint[:], in.ID.Date().String(), string(in.ID),
		s.dialect.clock(0), s.dialect.clock(in.KeyLife)).Scan(&clock).Error
	if err != nil {
		return nil, err
	}
	if len(clock) == 1 {
		return s.insertIntent(tx, in, clock[0].at)
	}
	var keys []keyRow
	err = tx.Raw(`SELECT fingerprint, transaction_id, expires_at, ? AS clock FROM idempotency_keys
WHERE client_id = ? AND idempotency_key = ?`, s.dialect.clock(0), string(in.Client), string(in.Key)).Scan(&keys).Error
	switch {
	case err != nil:
		return nil, err
	case len(keys) == 0: // its life was over, and it was removed
		return nil, errOvertaken
	}
	key := &keys[0]
	holder, err := getTransaction(tx, tranid.ID(key.TransactionID))
	if err != nil {
		return nil, err
	}
	mine := holder.ID == in.ID
	switch {
	case key.ExpiresAt.garbage: // a second payment must not come of it
		return nil, errNoKeyLife
	case holder.FreesKey(key.ExpiresAt.at, key.Clock.at) && !mine:
		return s.bindAgain(tx, in, holder.ID)
	case string(key.Fingerprint) != string(in.Fingerprint[:]):
		return nil, ledger.ErrKeyReused
	default:
		return &ledger.Admission{Transaction: holder, Created: mine && holder.Status == ledger.StatusRequested}, nil
	}
}

// bindAgain takes a key over from a transaction that lets it go, by
// compare-and-set: of two that try, one finds errOvertaken, and then the other's
// row.
func (s *Store) bindAgain(tx *gorm.DB, in *ledger.Intent, old tranid.ID) (*ledger.Admission, error) {
	var clock []instant
	result := tx.Raw(`UPDATE idempotency_keys
SET fingerprint = ?, business_date = ?, transaction_id = ?, created_at = ?, expires_at = ?
WHERE client_id = ? AND idempotency_key = ? AND transaction_id = ? RETURNING created_at`,
		in.Fingerprint[:], in.ID.Date().String(), string(in.ID), s.dialect.clock(0), s.dialect.clock(in.KeyLife),
		string(in.Client), string(in.Key), string(old)).Scan(&clock)
	if err := one(result, errOvertaken); err != nil {
		return nil, err
	}
	return s.insertIntent(tx, in, clock[0].at)
}

func (s *Store) insertIntent(tx *gorm.DB, in *ledger.Intent, now time.Time) (*ledger.Admission, error) {
	t, err := in.Row(now)
	if err != nil {
		return nil, err
	}
	if err := guardOrder(tx, in); err != nil {
		return nil, err
	}
	if err := s.insert(tx, &t, ledger.NewEvent(0, t.Status, 0, now, in.By, "")); err != nil {
		return nil, err
	}
	return &ledger.Admission{Transaction: t, Created: true}, nil
}

// insert stores a new row and its first event.
func (s *Store) insert(tx *gorm.DB, t *ledger.Transaction, first ledger.Event) error {
	if err := first.Validate(); err != nil {
		return err
	}
	err := s.dialect.insertRows(tx, []transactionRow{*newTransactionRow(t)})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return ledger.ErrDuplicateID
	}
	if err != nil {
		return err
	}
	return s.dialect.insertEvents(tx, []eventRow{newEventRow(t.ID, &first)})
}

// Record implements ledger.Writer.
func (s *Store) Record(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
	if len(rows) > ledger.MaxRecord {
		return fmt.Errorf("record %d rows: %w", len(rows), errArgument)
	}
	doing := fmt.Sprintf("record %d rows", len(rows))
	record := func(ctx context.Context) error {
		return s.transact(ctx, func(tx *gorm.DB) error { return s.recordMany(tx, rows, by) })
	}
	if s.dialect.arrays {
		record = func(ctx context.Context) error { return s.recordPlain(ctx, rows, by) }
	}
	err := s.noted(s.try(ctx, doing, s.writeAgain, record))
	if err == nil || !s.isVerdict(err) {
		return err
	}
	// One of them is bad, and must not harm the others.
	errs := make([]error, len(rows))
	for i := range rows {
		errs[i] = s.write(ctx, "record "+string(rows[i].ID), func(tx *gorm.DB) error {
			return s.recordMany(tx, rows[i:i+1], by)
		})
	}
	if errors.Join(errs...) == nil {
		return nil
	}
	return &ledger.UnrecordedError{Errs: errs}
}

// recordMany stores rows of transactions that had no intent, all or none.
func (s *Store) recordMany(tx *gorm.DB, given []ledger.Transaction, by ledger.Actor) error {
	if len(given) == 0 {
		return nil
	}
	now, err := s.readClock(tx)
	if err != nil {
		return err
	}
	rows, events, err := endedRows(given, by, now)
	if err != nil {
		return err
	}
	err = s.dialect.insertRows(tx, rows)
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return ledger.ErrDuplicateID
	}
	if err != nil {
		return err
	}
	return s.dialect.insertEvents(tx, events)
}

// endedRows are the rows of transactions that had no intent, and their events.
func endedRows(given []ledger.Transaction, by ledger.Actor, now time.Time) ([]transactionRow, []eventRow, error) {
	rows, events := make([]transactionRow, len(given)), make([]eventRow, len(given))
	for i := range given {
		t, err := ledger.Ended(&given[i], now)
		if err != nil {
			return nil, nil, err
		}
		event := ledger.NewEvent(0, t.Status, t.Evidence, now, by, t.Reason)
		if err := event.Validate(); err != nil {
			return nil, nil, err
		}
		rows[i], events[i] = *newTransactionRow(&t), newEventRow(t.ID, &event)
	}
	return rows, events, nil
}

// Transition implements ledger.Writer. Moves that come at once are stored
// together.
func (s *Store) Transition(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
	doing := "move " + string(c.ID) + " to " + c.To.String()
	if _, err := c.Rule(); err != nil {
		return ledger.Transaction{}, fmt.Errorf("%s: %w", doing, err)
	}
	line := s.outcomes
	if c.From == ledger.StatusUnknown {
		line = s.resolutions
	}
	after, err := together(ctx, s, line, &c, asking[*ledger.Transaction]{
		doing: doing,
		alone: func(ctx context.Context, _ error) (after *ledger.Transaction, err error) {
			err = s.write(ctx, doing, func(tx *gorm.DB) (err error) {
				after, err = s.moveOne(tx, &c)
				return err
			})
			return after, err
		},
	})
	if err != nil {
		return ledger.Transaction{}, err
	}
	return *after, nil
}

// moveOne makes a move.
func (s *Store) moveOne(tx *gorm.DB, c *ledger.Change) (*ledger.Transaction, error) {
	before, now, err := s.lockTransaction(tx, c.ID)
	if err != nil {
		return nil, err
	}
	after, err := s.move(tx, before, c, now)
	if err != nil {
		return nil, err
	}
	return &after, nil
}

// move makes a change of a row that was read, and its event.
func (s *Store) move(
	tx *gorm.DB, before ledger.Transaction, c *ledger.Change, now time.Time,
) (ledger.Transaction, error) {
	after := before
	made, err := c.Apply(&after, now)
	switch {
	case err != nil:
		return ledger.Transaction{}, err
	case !made:
		return ledger.Transaction{}, &ledger.LostError{Current: before}
	}
	if err := update(tx, &before, &after); err != nil {
		return ledger.Transaction{}, err
	}
	if err := freeOrder(tx, &after); err != nil {
		return ledger.Transaction{}, err
	}
	return after, appendEvents(tx, c.Event(now), c.ID)
}

// update writes what a change made of a row, if it still is where it was. The
// lease of a row that nobody is to resolve ends.
func update(tx *gorm.DB, before, after *ledger.Transaction) error {
	r := newTransactionRow(after)
	set := map[string]any{
		"status": r.Status, "evidence": r.Evidence, "resolution_method": r.ResolutionMethod,
		"needs_review":  r.NeedsReview,
		"response_code": r.ResponseCode, "response_message": r.ResponseMessage, "approval_number": r.ApprovalNumber,
		"reason": r.Reason, "elapsed_us": r.ElapsedUs,
		"sent_at": r.SentAt, "responded_at": r.RespondedAt, "resolved_at": r.ResolvedAt,
		"next_resolve_at": r.NextResolveAt, "decision": r.Decision,
	}
	if after.EndsLease() {
		set["lease_token"], set["lease_until"] = "", nil
	}
	result := tx.Table("transactions").
		Where(whileStatus+" AND decision = ?",
			r.BusinessDate, r.TransactionID, before.Status.String(), before.Decision.String()).
		Updates(set)
	return one(result, &ledger.LostError{Current: *before})
}

// AppendEvent implements ledger.Writer.
func (s *Store) AppendEvent(
	ctx context.Context, id tranid.ID, evidence ledger.Evidence, by ledger.Actor, detail string,
) error {
	return s.write(ctx, "append event to "+string(id), func(tx *gorm.DB) error {
		t, now, err := s.lockTransaction(tx, id)
		if err != nil {
			return err
		}
		return appendEvents(tx, ledger.NewEvent(t.Status, t.Status, evidence, now, by, detail), id)
	})
}

func (s *Store) readClock(tx *gorm.DB) (time.Time, error) {
	var clock []instant
	if err := tx.Raw("SELECT ? AS clock", s.dialect.clock(0)).Scan(&clock).Error; err != nil {
		return time.Time{}, err
	}
	return clock[0].at, nil
}
