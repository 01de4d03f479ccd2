package gormstore

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// errNoTime says which garbage it is.
var errNoTime = errors.New("a time is not a time")

// instantLayout is a time in SQLite: one width, so that text sorts by time.
// PostgreSQL reads it too.
const instantLayout = "2006-01-02T15:04:05.000000Z"

// instant is a moment in a column; the zero time is NULL. What is no
// time, or none that the book can hold, is kept as garbage, so that one row does
// not spoil a whole result.
type instant struct {
	at      time.Time
	garbage bool
}

// Value implements driver.Valuer.
func (i instant) Value() (driver.Value, error) {
	if i.at.IsZero() {
		return nil, nil
	}
	return i.at.UTC().Format(instantLayout), nil
}

// Scan implements sql.Scanner.
func (i *instant) Scan(src any) error {
	*i = instant{}
	switch value := src.(type) {
	case nil:
	case time.Time:
		i.read(value)
	case string: // of PostgreSQL, infinity
		at, err := time.Parse(instantLayout, value)
		i.read(at)
		i.garbage = i.garbage || err != nil
	default:
		i.garbage = true
	}
	return nil
}

// read takes a moment over. One that the book cannot hold is garbage, and so is
// the zero time, which would be taken for NULL.
func (i *instant) read(at time.Time) {
	if i.garbage = at.IsZero() || !ledger.Holds(at); !i.garbage {
		i.at = ledger.Moment(at)
	}
}

// flag is a yes or no in a column. SQLite has numbers for it, and one that is
// neither is kept as garbage.
type flag struct {
	set     bool
	garbage bool
}

// Value implements driver.Valuer.
func (f flag) Value() (driver.Value, error) { return f.set, nil }

// Scan implements sql.Scanner.
func (f *flag) Scan(src any) error {
	switch value := src.(type) {
	case bool:
		*f = flag{set: value}
	case int64:
		*f = flag{set: value == 1, garbage: value != 0 && value != 1}
	default:
		*f = flag{garbage: true}
	}
	return nil
}

// transactionRow is a transaction as the table has it.
type transactionRow struct {
	BusinessDate     string
	TransactionID    string
	Kind             string
	Status           string
	Evidence         string
	ResolutionMethod string
	ResolutionPolicy string
	Decision         string
	NeedsReview      flag
	ClientID         string
	IdempotencyKey   string
	OrderID          string
	AccountMasked    string
	AccountHash      []byte
	Amount           int64
	ResponseCode     string
	ResponseMessage  string
	ApprovalNumber   string
	Reason           string
	ElapsedUs        int64
	RequestedAt      instant
	SentAt           instant
	RespondedAt      instant
	ResolvedAt       instant
	AdoptAt          instant
	ResolveAttempts  int
	NotFound         int
	Asked            flag
	NextResolveAt    instant
	CorrelationID    string
	TraceID          string
}

// TableName implements GORM's Tabler.
func (transactionRow) TableName() string { return "transactions" }

// columns are those of transactionRow that are read; the business date is in the
// ID.
const columns = `transaction_id, kind, status, evidence, resolution_method, resolution_policy, decision, needs_review,
client_id, idempotency_key, order_id, account_masked, account_hash, amount, response_code, response_message,
approval_number, reason, elapsed_us, requested_at, sent_at, responded_at, resolved_at, adopt_at, resolve_attempts,
not_found, asked, next_resolve_at, correlation_id, trace_id`

func newTransactionRow(t *ledger.Transaction) *transactionRow {
	return &transactionRow{
		BusinessDate: t.ID.Date().String(), TransactionID: string(t.ID),
		Kind: t.Kind.String(), Status: t.Status.String(), Evidence: t.Evidence.String(),
		ResolutionMethod: t.Method.String(), ResolutionPolicy: t.Policy.String(), Decision: t.Decision.String(),
		NeedsReview: flag{set: t.NeedsReview},
		ClientID:    string(t.Client), IdempotencyKey: string(t.Key), OrderID: string(t.Order),
		AccountMasked: t.AccountMasked, AccountHash: t.AccountHash[:], Amount: int64(t.Amount),
		ResponseCode: t.Answer.Code, ResponseMessage: t.Answer.Message, ApprovalNumber: t.Answer.Approval,
		Reason: t.Reason, ElapsedUs: t.Elapsed.Microseconds(),
		RequestedAt: instant{at: t.RequestedAt}, SentAt: instant{at: t.SentAt}, RespondedAt: instant{at: t.RespondedAt},
		ResolvedAt: instant{at: t.ResolvedAt}, AdoptAt: instant{at: t.AdoptAt}, NextResolveAt: instant{at: t.NextResolveAt},
		ResolveAttempts: t.ResolveAttempts, NotFound: t.NotFound, Asked: flag{set: t.Asked},
		CorrelationID: t.CorrelationID, TraceID: t.TraceID,
	}
}

// targets are where the columns are scanned to.
func (r *transactionRow) targets() []any {
	return []any{
		&r.TransactionID, &r.Kind, &r.Status, &r.Evidence, &r.ResolutionMethod, &r.ResolutionPolicy, &r.Decision, &r.NeedsReview,
		&r.ClientID, &r.IdempotencyKey, &r.OrderID, &r.AccountMasked, &r.AccountHash, &r.Amount, &r.ResponseCode, &r.ResponseMessage,
		&r.ApprovalNumber, &r.Reason, &r.ElapsedUs, &r.RequestedAt, &r.SentAt, &r.RespondedAt, &r.ResolvedAt, &r.AdoptAt, &r.ResolveAttempts,
		&r.NotFound, &r.Asked, &r.NextResolveAt, &r.CorrelationID, &r.TraceID,
	}
}

// transaction reads the row. Whatever a row may not hold is ledger.ErrUnreadable.
func (r *transactionRow) transaction() (ledger.Transaction, error) {
	var errs [7]error
	t := ledger.Transaction{
		NeedsReview: r.NeedsReview.set,
		Client:      ledger.ClientID(r.ClientID), Key: ledger.IdempotencyKey(r.IdempotencyKey), Order: ledger.OrderID(r.OrderID),
		AccountMasked: r.AccountMasked, Amount: account.Won(r.Amount),
		Answer: ledger.Answer{Code: r.ResponseCode, Message: r.ResponseMessage, Approval: r.ApprovalNumber},
		Reason: r.Reason, Elapsed: time.Duration(r.ElapsedUs) * time.Microsecond,
		RequestedAt: r.RequestedAt.at, SentAt: r.SentAt.at, RespondedAt: r.RespondedAt.at,
		ResolvedAt: r.ResolvedAt.at, AdoptAt: r.AdoptAt.at, NextResolveAt: r.NextResolveAt.at,
		ResolveAttempts: r.ResolveAttempts, NotFound: r.NotFound, Asked: r.Asked.set,
		CorrelationID: r.CorrelationID, TraceID: r.TraceID,
	}
	t.ID, errs[0] = tranid.Parse(r.TransactionID)
	t.Kind, errs[1] = ledger.ParseKind(r.Kind)
	t.Status, errs[2] = ledger.ParseStatus(r.Status)
	t.Evidence, errs[3] = ledger.ParseEvidence(r.Evidence)
	t.Method, errs[4] = ledger.ParseMethod(r.ResolutionMethod)
	t.Policy, errs[5] = ledger.ParsePolicy(r.ResolutionPolicy)
	t.Decision, errs[6] = ledger.ParseDecision(r.Decision)
	err := errors.Join(errs[:]...)
	if err == nil && copy(t.AccountHash[:], r.AccountHash) != len(t.AccountHash) {
		err = errors.New("account hash is too short")
	}
	for _, i := range []instant{r.RequestedAt, r.SentAt, r.RespondedAt, r.ResolvedAt, r.AdoptAt, r.NextResolveAt} {
		if err == nil && i.garbage {
			err = errNoTime
		}
	}
	if err == nil && (r.NeedsReview.garbage || r.Asked.garbage) {
		err = errors.New("a yes or no is neither")
	}
	if err == nil {
		err = t.Validate()
	}
	if err != nil {
		return ledger.Transaction{}, fmt.Errorf("%w: %.30q: %w", ledger.ErrUnreadable, r.TransactionID, err)
	}
	return t, nil
}

// clockedRow is a row and the database's clock when it was read.
type clockedRow struct {
	Row   transactionRow `gorm:"embedded"`
	Clock instant
}

// lockRow reads a row that is to be changed, and the clock after it was locked.
func (s *Store) lockRow(tx *gorm.DB, id tranid.ID) (*clockedRow, error) {
	if id.Date().IsZero() {
		return nil, ledger.ErrNotFound
	}
	var row clockedRow
	found := false
	err := eachRow(tx.Raw(`WITH locked AS MATERIALIZED (
	SELECT `+columns+` FROM transactions WHERE business_date = ? AND transaction_id = ? `+s.dialect.forUpdate+`)
SELECT `+columns+`, ? AS clock FROM locked`, id.Date().String(), string(id), s.dialect.clock(0)),
		func() { found = true }, append(row.Row.targets(), &row.Clock)...)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, ledger.ErrNotFound
	default:
		return &row, nil
	}
}

// lockTransaction is lockRow of a row that must be sound.
func (s *Store) lockTransaction(tx *gorm.DB, id tranid.ID) (ledger.Transaction, time.Time, error) {
	row, err := s.lockRow(tx, id)
	if err != nil {
		return ledger.Transaction{}, time.Time{}, err
	}
	t, err := row.Row.transaction()
	return t, row.Clock.at, err
}

// eventRow is an event as the table has it.
type eventRow struct {
	Sequence      int64 `gorm:"->"` // the database numbers it
	BusinessDate  string
	TransactionID string
	At            instant
	FromStatus    string
	ToStatus      string
	Evidence      string
	Actor         string
	Instance      string
	Detail        string
	TraceID       string
}

// TableName implements GORM's Tabler.
func (eventRow) TableName() string { return "transaction_events" }

const eventColumns = "sequence, at, from_status, to_status, evidence, actor, instance, detail, trace_id"

// appendEvents stores entries of one kind for each of the transactions.
func appendEvents(tx *gorm.DB, e ledger.Event, ids ...tranid.ID) error {
	if err := e.Validate(); err != nil {
		return err
	}
	rows := make([]eventRow, len(ids))
	for i, id := range ids {
		rows[i] = newEventRow(id, &e)
	}
	r := relation{count: len(rows), columns: eventColumnsOf(rows)}
	text, values := r.values()
	return tx.Exec("INSERT INTO transaction_events ("+r.names()+") "+text, values...).Error
}

func newEventRow(id tranid.ID, e *ledger.Event) eventRow {
	return eventRow{
		BusinessDate: id.Date().String(), TransactionID: string(id), At: instant{at: e.At},
		FromStatus: e.From.String(), ToStatus: e.To.String(), Evidence: e.Evidence.String(),
		Actor: e.By.Name, Instance: e.By.Instance, Detail: e.Detail, TraceID: e.By.TraceID,
	}
}

func (r *eventRow) event() (ledger.Event, error) {
	var errs [3]error
	e := ledger.Event{
		Sequence: r.Sequence, At: r.At.at, Detail: r.Detail,
		By: ledger.Actor{Name: r.Actor, Instance: r.Instance, TraceID: r.TraceID},
	}
	if r.FromStatus != "" {
		e.From, errs[0] = ledger.ParseStatus(r.FromStatus)
	}
	e.To, errs[1] = ledger.ParseStatus(r.ToStatus)
	e.Evidence, errs[2] = ledger.ParseEvidence(r.Evidence)
	err := errors.Join(errs[:]...)
	if err == nil && r.At.garbage {
		err = errNoTime
	}
	if err != nil {
		return ledger.Event{}, fmt.Errorf("%w: event %d: %w", ledger.ErrUnreadable, r.Sequence, err)
	}
	return e, nil
}
