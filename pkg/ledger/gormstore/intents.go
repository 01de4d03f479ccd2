package gormstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// intention is an intent, and what it is answered in the plain case: its row,
// REQUESTED and valid, as it would be stored when it was asked for.
type intention struct {
	ledger.Intent

	created ledger.Admission
}

func newIntention(in *ledger.Intent) (*intention, error) {
	row, err := in.Row(in.RequestedAt) // its statement knows better when it is abandoned
	if err != nil {
		return nil, err
	}
	return &intention{Intent: *in, created: ledger.Admission{Transaction: row, Created: true}}, nil
}

// writeIntents settles a batch of intents in one database transaction. Those that
// are not the plain case, a key and an order that nobody has, are left alone.
func (s *Store) writeIntents(ctx context.Context, batch []*intention) []reply[*ledger.Admission] {
	var replies []reply[*ledger.Admission]
	err := s.retried(ctx, func(ctx context.Context) (err error) {
		replies, err = s.plainIntents(ctx, batch)
		return err
	})
	if errors.Is(err, errNotPlain) {
		err = s.writeTogether(ctx, func(tx *gorm.DB) (err error) {
			if len(batch) == 1 {
				var one reply[*ledger.Admission]
				one.answer, err = s.admit(tx, &batch[0].Intent)
				replies = []reply[*ledger.Admission]{one}
				return err
			}
			replies, err = s.admitMany(tx, batch)
			return err
		})
	}
	switch {
	case err == nil:
		return replies
	case len(batch) == 1 && s.isVerdict(err):
		return []reply[*ledger.Admission]{{err: err}}
	default:
		s.tellAlone(ctx, "intent", len(batch), err)
		return leftAlone[*ledger.Admission](len(batch), errors.Join(errAlone, err))
	}
}

// tellAlone says that what was to be written together is written row by row: when
// that goes on, it is slow.
func (s *Store) tellAlone(ctx context.Context, kind string, rows int, err error) {
	if s.isVerdict(err) {
		s.log.WarnContext(ctx, "batch refused, its rows are written one by one", "store", s.dialect.name,
			"kind", kind, "rows", rows, "error", err)
	}
}

// writeTogether runs f in one database transaction, and again while the database
// refuses it for another writer's sake.
func (s *Store) writeTogether(ctx context.Context, f func(tx *gorm.DB) error) error {
	return s.retried(ctx, func(ctx context.Context) error { return s.transact(ctx, f) })
}

// retried makes attempts while the database refuses them for another writer's
// sake, or where nothing was done.
func (s *Store) retried(ctx context.Context, attempt func(context.Context) error) error {
	err := attempt(ctx)
	for tries := 1; tries < maxTries && s.writeAgain(err) && pause(ctx, tries); tries++ {
		err = attempt(ctx)
	}
	return err
}

// admitMany binds the keys that nobody has, takes their orders and stores their
// rows. What waits on another writer does so in one order everywhere: by client
// and key, then by client and order. Equal keys are settled with the first of
// them; equal orders and IDs are left alone, since they are looked at after the
// key.
func (s *Store) admitMany(tx *gorm.DB, batch []*intention) ([]reply[*ledger.Admission], error) {
	replies := leftAlone[*ledger.Admission](len(batch), errAlone)
	first, followers := sortOut(batch)
	bound, err := s.bindKeys(tx, first)
	if err != nil {
		return nil, err
	}
	fresh := slices.DeleteFunc(first, func(in *intention) bool { return bound[in.ID].IsZero() })
	if fresh, err = s.guardOrders(tx, fresh); err != nil {
		return nil, err
	}
	created, err := s.insertIntents(tx, fresh, bound)
	if err != nil {
		return nil, err
	}
	for i, in := range batch {
		lead := in
		if followers[in] != nil {
			lead = followers[in]
		}
		t, ok := created[lead]
		switch {
		case !ok:
		case lead == in:
			replies[i] = reply[*ledger.Admission]{answer: &ledger.Admission{Transaction: t, Created: true}}
		case lead.Fingerprint != in.Fingerprint:
			replies[i] = reply[*ledger.Admission]{err: ledger.ErrKeyReused}
		default:
			replies[i] = reply[*ledger.Admission]{answer: &ledger.Admission{Transaction: t, Created: t.ID == in.ID}}
		}
	}
	return replies, nil
}

// intentKey is the key of an intent.
type intentKey struct {
	client ledger.ClientID
	key    ledger.IdempotencyKey
}

// intentOrder is the order of an intent.
type intentOrder struct {
	client ledger.ClientID
	order  ledger.OrderID
}

// sortOut returns the first intent of each key, by client and key, without those
// whose order or ID an earlier one has, and by whom the others of a key are led.
func sortOut(batch []*intention) (first []*intention, followers map[*intention]*intention) {
	keys := make(map[intentKey]*intention, len(batch))
	orders := make(map[intentOrder]bool)
	ids := make(map[tranid.ID]bool, len(batch))
	followers = make(map[*intention]*intention)
	for _, in := range batch {
		key, order := intentKey{in.Client, in.Key}, intentOrder{in.Client, in.Order}
		if lead, ok := keys[key]; ok {
			followers[in] = lead
			continue
		}
		keys[key] = in
		if ids[in.ID] || in.Order != "" && orders[order] {
			continue
		}
		ids[in.ID], orders[order] = true, true
		first = append(first, in)
	}
	slices.SortFunc(first, func(a, b *intention) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Key, b.Key))
	})
	return first, followers
}

// bindKeys binds the keys that nobody has, and returns when, by the ID of the
// intent. It waits for any other call that is binding one of them.
func (s *Store) bindKeys(tx *gorm.DB, ins []*intention) (map[tranid.ID]time.Time, error) {
	type intent = *intention
	text, values := s.dialect.insert("idempotency_keys", &relation{count: len(ins), columns: []column{
		texts("client_id", ins, func(in *intent) string { return string((*in).Client) }),
		texts("idempotency_key", ins, func(in *intent) string { return string((*in).Key) }),
		plain("fingerprint", "bytea", ins, func(in *intent) []byte { return (*in).Fingerprint[:] }),
		dates("business_date", ins, func(in *intent) string { return (*in).ID.Date().String() }),
		texts("transaction_id", ins, func(in *intent) string { return string((*in).ID) }),
		clocks(s.dialect, "created_at", ins, func(*intent) time.Duration { return 0 }),
		clocks(s.dialect, "expires_at", ins, func(in *intent) time.Duration { return (*in).KeyLife }),
	}})
	bound := make(map[tranid.ID]time.Time, len(ins))
	var id string
	var at instant
	err := eachRow(tx.Raw(text+"\nON CONFLICT (client_id, idempotency_key) DO NOTHING RETURNING transaction_id, created_at", values...),
		func() { bound[tranid.ID(id)] = at.at }, &id, &at)
	return bound, err
}

// guardOrders takes the orders of intents whose keys are bound, and returns those
// who have theirs. The key of one whose order another has is free again.
func (s *Store) guardOrders(tx *gorm.DB, ins []*intention) ([]*intention, error) {
	var buyers []*intention
	for _, in := range ins {
		if in.Order != "" {
			buyers = append(buyers, in)
		}
	}
	if len(buyers) == 0 {
		return ins, nil
	}
	slices.SortFunc(buyers, func(a, b *intention) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Order, b.Order))
	})
	type intent = *intention
	text, values := s.dialect.insert("order_guards", &relation{count: len(buyers), columns: []column{
		texts("client_id", buyers, func(in *intent) string { return string((*in).Client) }),
		texts("order_id", buyers, func(in *intent) string { return string((*in).Order) }),
		dates("business_date", buyers, func(in *intent) string { return (*in).ID.Date().String() }),
		texts("transaction_id", buyers, func(in *intent) string { return string((*in).ID) }),
	}})
	guarded := make(map[tranid.ID]bool, len(buyers))
	var id string
	err := eachRow(tx.Raw(text+"\nON CONFLICT (client_id, order_id) DO NOTHING RETURNING transaction_id", values...),
		func() { guarded[tranid.ID(id)] = true }, &id)
	if err != nil {
		return nil, err
	}
	late := func(in *intention) bool { return in.Order != "" && !guarded[in.ID] }
	if err := s.unbindKeys(tx, slices.DeleteFunc(buyers, func(in *intention) bool { return !late(in) })); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ins, late), nil
}

// unbindKeys frees keys that this database transaction has bound.
func (s *Store) unbindKeys(tx *gorm.DB, ins []*intention) error {
	rows := make([]clientRow, len(ins))
	for i, in := range ins {
		rows[i] = clientRow{client: string(in.Client), name: string(in.Key), id: string(in.ID)}
	}
	return s.deleteOf(tx, "idempotency_keys", "idempotency_key", rows)
}

// insertIntents stores the rows of intents whose keys are bound since then.
func (s *Store) insertIntents(
	tx *gorm.DB, ins []*intention, bound map[tranid.ID]time.Time,
) (map[*intention]ledger.Transaction, error) {
	created := make(map[*intention]ledger.Transaction, len(ins))
	if len(ins) == 0 {
		return created, nil
	}
	rows, events := make([]transactionRow, len(ins)), make([]eventRow, len(ins))
	for i, in := range ins {
		now := bound[in.ID]
		t, err := in.Row(now)
		if err != nil {
			return nil, err
		}
		first := ledger.NewEvent(0, t.Status, 0, now, in.By, "")
		created[in], rows[i], events[i] = t, *newTransactionRow(&t), newEventRow(in.ID, &first)
	}
	if err := s.dialect.insertRows(tx, rows); err != nil {
		return nil, err
	}
	return created, s.dialect.insertEvents(tx, events)
}

// eachRow reads the rows of a query, one after the other, into the targets.
func eachRow(query *gorm.DB, read func(), targets ...any) error {
	rows, err := query.Rows()
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		read()
	}
	return rows.Err()
}
