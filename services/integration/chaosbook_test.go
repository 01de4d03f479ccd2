package integration

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

// The database itself writes down every row and every event that is written, in the
// same database transaction: what the auditor hears of the ledger does not come from
// those who write it.
const (
	watchOnPostgreSQL = `
CREATE TABLE watched (sequence bigserial PRIMARY KEY, tx bigint NOT NULL, at timestamptz NOT NULL, source text NOT NULL, body text NOT NULL);
CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO watched (tx, at, source, body) VALUES (txid_current(), clock_timestamp(), TG_TABLE_NAME, to_jsonb(NEW)::text);
	RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER INSERT OR UPDATE ON transactions FOR EACH ROW EXECUTE FUNCTION watch();
CREATE TRIGGER watch AFTER INSERT OR UPDATE ON transaction_events FOR EACH ROW EXECUTE FUNCTION watch();`
	forgetOnPostgreSQL = `
DROP TRIGGER watch ON transactions; DROP TRIGGER watch ON transaction_events; DROP FUNCTION watch; DROP TABLE watched;`

	watchOnSQLite = `CREATE TABLE watched (sequence INTEGER PRIMARY KEY AUTOINCREMENT, tx INTEGER, at TEXT, source TEXT NOT NULL, body TEXT NOT NULL)`
)

// The tables that are watched, and what is done to them.
var (
	watchedTables = []string{"transactions", "transaction_events"}
	watchedMoves  = []string{"INSERT", "UPDATE"}
)

// watch has the database write down what is written from now on.
func (db *database) watch(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pool := db.open(t)
	defer func() { _ = pool.Close() }()
	statements := []string{watchOnPostgreSQL}
	if db.kind == "sqlite" {
		statements = []string{watchOnSQLite}
		for _, table := range watchedTables {
			object := strings.Join(selectAll(ctx, t, pool, `SELECT '''' || name || ''', ' ||
				CASE WHEN type = 'BLOB' THEN 'hex(NEW.' || name || ')' ELSE 'NEW.' || name END FROM pragma_table_info('`+table+`')`), ", ")
			for _, move := range watchedMoves {
				statements = append(statements, fmt.Sprintf(`CREATE TRIGGER watch_%s_%s AFTER %s ON %s
BEGIN INSERT INTO watched (source, body) VALUES ('%s', json_object(%s)); END`, table, move, move, table, table, object))
			}
		}
	}
	execute(ctx, t, pool, statements)
}

// forget ends that, and drops what was written down.
func (db *database) forget(ctx context.Context, t testing.TB, pool *sql.DB) {
	t.Helper()
	statements := []string{forgetOnPostgreSQL}
	if db.kind == "sqlite" {
		statements = []string{"DROP TABLE watched"}
		for _, table := range watchedTables {
			for _, move := range watchedMoves {
				statements = append([]string{"DROP TRIGGER watch_" + table + "_" + move}, statements...)
			}
		}
	}
	execute(ctx, t, pool, statements)
}

func execute(ctx context.Context, t testing.TB, pool *sql.DB, statements []string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// version is a row and its history as one database transaction left them.
type version struct {
	at     time.Time
	row    ledger.Transaction
	events []ledger.Event
	tx     int64
	// written is set once an event of this version was written.
	written bool
}

// tell tells the auditor of it.
func (v version) tell(a *audit.Auditor) { a.Row(v.at, v.row, v.events) }

// versions reads what was written down, in its order, and ends the watch. PostgreSQL
// says what was one database transaction, and when; in SQLite one writer follows the
// other, each with its row before its event, which has the moment.
func (db *database) versions(t testing.TB) []version {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), auditFor)
	defer cancel()
	pool := db.open(t)
	defer func() { _ = pool.Close() }()
	rows, err := pool.QueryContext(ctx, "SELECT tx, at, source, body FROM watched ORDER BY sequence")
	if err != nil {
		t.Fatalf("read what was written: %v", err)
	}
	defer func() { _ = rows.Close() }()
	var b watchedBook
	for rows.Next() {
		var tx sql.NullInt64
		var at sql.NullTime
		var source, body string
		if err := rows.Scan(&tx, &at, &source, &body); err != nil {
			t.Fatalf("read what was written: %v", err)
		}
		if err := b.take(tx.Int64, at.Time.UTC(), source, body); err != nil {
			t.Errorf("the ledger has what cannot be read: %v\n%s", err, body)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("read what was written: %v", err)
	}
	_ = rows.Close()
	db.forget(ctx, t, pool)
	all := make([]version, len(b.all))
	for i, v := range b.all {
		all[i] = *v
	}
	return all
}

// watchedBook puts versions together.
type watchedBook struct {
	all  []*version
	last map[tranid.ID]*version
	now  time.Time
}

// take takes one row or one event. A moment that is not known is that of what was
// written before.
func (b *watchedBook) take(tx int64, at time.Time, source, body string) error {
	c := columns{}
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&c.all); err != nil {
		return err
	}
	id := tranid.ID(c.text("transaction_id"))
	event := source == "transaction_events"
	if tx == 0 && event {
		at = c.moment("at")
	}
	if tx == 0 && at.Before(b.now) {
		at = b.now
	}
	b.now = at
	v := b.version(id, tx, event)
	v.at = at
	if event {
		v.events, v.written = append(v.events[:len(v.events):len(v.events)], c.event()), true
	} else {
		v.row = c.transaction()
	}
	return c.err
}

// version is the one that is being written, or another that begins.
func (b *watchedBook) version(id tranid.ID, tx int64, event bool) *version {
	if b.last == nil {
		b.last = map[tranid.ID]*version{}
	}
	last := b.last[id]
	switch {
	case last == nil:
		last = &version{}
	case tx != 0 && last.tx == tx, tx == 0 && event && !last.written:
		return last
	}
	next := &version{row: last.row, events: last.events, tx: tx}
	b.all, b.last[id] = append(b.all, next), next
	return next
}

// columns are those of a row or an event, by name.
type columns struct {
	all map[string]any
	err error
}

// note keeps the first error.
func (c *columns) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *columns) text(name string) string {
	s, ok := c.all[name].(string)
	if !ok {
		c.note(fmt.Errorf("%s is %v", name, c.all[name]))
	}
	return s
}

func (c *columns) number(name string) int64 {
	n, ok := c.all[name].(json.Number)
	if !ok {
		c.note(fmt.Errorf("%s is %v", name, c.all[name]))
		return 0
	}
	i, err := n.Int64()
	c.note(err)
	return i
}

// flag is a boolean, or a number in SQLite.
func (c *columns) flag(name string) bool {
	if b, ok := c.all[name].(bool); ok {
		return b
	}
	return c.number(name) != 0
}

// moment is a time; zero for none.
func (c *columns) moment(name string) time.Time {
	if c.all[name] == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, c.text(name))
	c.note(err)
	return at.UTC()
}

// read reads a name of one of the domain's sets.
func read[T any](c *columns, name string, parse func(string) (T, error)) T {
	text := c.text(name)
	v, err := parse(text)
	if text == "" {
		err = nil
	}
	c.note(err)
	return v
}

func (c *columns) transaction() ledger.Transaction {
	t := ledger.Transaction{
		ID: tranid.ID(c.text("transaction_id")), Kind: read(c, "kind", ledger.ParseKind), Status: read(c, "status", ledger.ParseStatus),
		Evidence: read(c, "evidence", ledger.ParseEvidence), Method: read(c, "resolution_method", ledger.ParseMethod),
		Policy: read(c, "resolution_policy", ledger.ParsePolicy), Decision: read(c, "decision", ledger.ParseDecision),
		NeedsReview: c.flag("needs_review"), Client: ledger.ClientID(c.text("client_id")),
		Key: ledger.IdempotencyKey(c.text("idempotency_key")), Order: ledger.OrderID(c.text("order_id")),
		AccountMasked: c.text("account_masked"), Amount: account.Won(c.number("amount")),
		Answer: ledger.Answer{Code: c.text("response_code"), Message: c.text("response_message"), Approval: c.text("approval_number")},
		Reason: c.text("reason"), Elapsed: time.Duration(c.number("elapsed_us")) * time.Microsecond,
		RequestedAt: c.moment("requested_at"), SentAt: c.moment("sent_at"), RespondedAt: c.moment("responded_at"),
		ResolvedAt: c.moment("resolved_at"), AdoptAt: c.moment("adopt_at"), NextResolveAt: c.moment("next_resolve_at"),
		ResolveAttempts: int(c.number("resolve_attempts")), NotFound: int(c.number("not_found")), Asked: c.flag("asked"),
		CorrelationID: c.text("correlation_id"), TraceID: c.text("trace_id"),
	}
	hash, err := hex.DecodeString(strings.TrimPrefix(c.text("account_hash"), `\x`))
	c.note(err)
	if copy(t.AccountHash[:], hash) != len(t.AccountHash) {
		c.note(fmt.Errorf("the account hash has %d bytes", len(hash)))
	}
	return t
}

func (c *columns) event() ledger.Event {
	return ledger.Event{
		Sequence: c.number("sequence"), At: c.moment("at"), From: read(c, "from_status", ledger.ParseStatus),
		To: read(c, "to_status", ledger.ParseStatus), Evidence: read(c, "evidence", ledger.ParseEvidence),
		By:     ledger.Actor{Name: c.text("actor"), Instance: c.text("instance"), TraceID: c.text("trace_id")},
		Detail: c.text("detail"),
	}
}
