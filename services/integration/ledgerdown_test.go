package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// outage makes a ledger unreachable, and reachable again.
type outage struct {
	begin, end func()
	// readable says that the ledger can be read all the while.
	readable bool
}

// newOutage returns how a ledger of this kind breaks down: PostgreSQL behind a
// relay that can be cut, a SQLite file by a lock that is not given up. The
// services must be started after it.
func newOutage(t *testing.T, db *database) *outage {
	t.Helper()
	if db.kind == "sqlite" {
		o := &outage{readable: true}
		o.begin = func() { o.end = db.lock(t) }
		return o
	}
	r := relayPostgreSQL(t, db)
	return &outage{begin: r.down, end: func() { r.open(t) }}
}

// relayPostgreSQL lays a relay before the server, and has the services use it.
func relayPostgreSQL(t *testing.T, db *database) *relay {
	t.Helper()
	config, err := pgx.ParseConfig(db.dsn)
	if err != nil {
		t.Fatal("read the DSN of the test's database")
	}
	network, target := "tcp", fmt.Sprintf("%s:%d", config.Host, config.Port)
	if filepath.IsAbs(config.Host) {
		network, target = "unix", filepath.Join(config.Host, fmt.Sprintf(".s.PGSQL.%d", config.Port))
	}
	r := newRelay(t, network, target)
	user := url.User(config.User)
	if config.Password != "" {
		user = url.UserPassword(config.User, config.Password)
	}
	relayed := url.URL{Scheme: "postgres", User: user, Host: r.address, Path: "/" + config.Database, RawQuery: "sslmode=disable"}
	db.flags = []string{"--ledger-dsn=" + relayed.String(), "--hash-key=" + hashKey}
	return r
}

// awaitNotReady waits until a process says that it is not ready.
func (p *process) awaitNotReady(t testing.TB) {
	t.Helper()
	eventually(t, p.name+" is not ready", func(ctx context.Context) error {
		if code, _ := p.fetch(ctx, t, "/readyz"); code != http.StatusServiceUnavailable {
			return fmt.Errorf("/readyz answers %d", code)
		}
		return nil
	})
}

// TestLedgerDown_NothingIsSent takes the ledger away from services that run.
// Nothing leaves without an intent; both say so; and both go on by themselves.
func TestLedgerDown_NothingIsSent(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		down := newOutage(t, db)
		// What the ledger never took is withdrawn for as long as it may still come.
		p := s.startPayment(t, "--send-window=5s", "--deadline=5s")
		r := s.startReconciler(t)
		first := p.pay(t, "before", ordinary, 10, netCancel)
		first.expect(t, "before", done)

		down.begin()
		sent := s.wire.requests()
		a := p.pay(t, "meanwhile", ordinary, 20, netCancel)
		if a.code != codes.Unavailable || a.reason() != "LEDGER_UNAVAILABLE" || a.row != nil {
			t.Errorf("a payment meanwhile: %s", a)
		}
		p.awaitNotReady(t)
		r.awaitNotReady(t)
		for _, each := range []*process{p.process, r.process} {
			if code := each.probe(t, "/livez"); code != http.StatusOK {
				t.Errorf("meanwhile, /livez of %s answers %d", each.name, code)
			}
		}
		if now := s.wire.requests(); now != sent {
			t.Errorf("%d frames left meanwhile", now-sent)
		}
		readMeanwhile(t, p, first, down.readable)
		// The ledger being down is nothing to an inquiry.
		if b := p.ask(t, ordinary); b.code != codes.OK || b.balance == 0 {
			t.Errorf("a balance meanwhile: %s", b)
		}

		down.end()
		p.awaitReady(t)
		r.awaitReady(t)
		last := p.pay(t, "meanwhile", ordinary, 20, netCancel)
		last.expect(t, "the same key, afterwards", done)
		lost := p.pay(t, "lost", unansweredAccount, 30, netCancel)
		b := s.audit(t, p)
		b.expect(t, first.id(), done)
		b.expect(t, last.id(), done)
		b.expect(t, lost.id(), netCanceled)
	})
}

// readMeanwhile looks a payment up while the ledger is down.
func readMeanwhile(t *testing.T, p *payment, first told, readable bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	resp, err := p.GetPayment(ctx, &paymentv1.GetPaymentRequest{Key: &paymentv1.GetPaymentRequest_TransactionId{TransactionId: first.id()}})
	a := hear(t, err, nil)
	switch {
	case readable && (err != nil || resp.GetTransaction().GetStatus() != success):
		t.Errorf("read meanwhile: %v, %s", resp, a)
	case !readable && (a.code != codes.Unavailable || a.reason() != "LEDGER_UNAVAILABLE"):
		t.Errorf("read meanwhile: %s", a)
	}
}

// TestLedgerDown_WhileThePaymentIsUnderWay takes the ledger away after the
// intent and before the outcome. The caller is told that it is not known; it
// becomes known when the ledger is back.
func TestLedgerDown_WhileThePaymentIsUnderWay(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		down := newOutage(t, db)
		p := s.startPayment(t, "--read-timeout=6s", "--deadline=6s", "--adopt-margin=10s")
		p.dirty = true // an outcome that cannot be stored is an ERROR
		s.startReconciler(t)
		held := s.wire.hold(t, "0110", 1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		ended := make(chan told, 1)
		go func() {
			ended <- p.payWith(ctx, t, &paymentv1.CreatePaymentRequest{IdempotencyKey: "key", AccountNumber: ordinary, Amount: 10})
		}()
		id := s.wire.await(t, fromCore, "0110", "", 1).tranID
		down.begin()
		held.release()
		a := <-ended
		if a.code != codes.DeadlineExceeded || a.reason() != "OUTCOME_UNKNOWN" || a.id() != id {
			t.Errorf("the caller is told %s", a)
		}
		down.end()
		p.awaitReady(t)
		row := p.follow(t, id)
		if got := statusName(row); got != "SUCCESS" && got != "CANCELED" {
			t.Errorf("in the end it is %v", row)
		}
		s.audit(t, p)
	})
}

// TestLedgerDown_AtStart starts both services before their PostgreSQL is there:
// they serve, are not ready, refuse, and are ready when it comes.
func TestLedgerDown_AtStart(t *testing.T) {
	t.Parallel()
	db := newPostgreSQL(t)
	s := newStack(t, db)
	server := relayPostgreSQL(t, db)
	server.down()
	p := s.spawnPayment(t)
	r := s.spawnReconciler(t)
	p.awaitNotReady(t)
	r.awaitNotReady(t)
	for name, a := range map[string]told{
		"a payment": p.pay(t, "key", ordinary, 10, netCancel),
		"a balance": p.ask(t, ordinary), // it has no ID to go by
	} {
		if a.code != codes.Unavailable || a.reason() != "LEDGER_UNAVAILABLE" {
			t.Errorf("%s without a ledger: %s", name, a)
		}
	}
	if code := p.probe(t, "/livez"); code != http.StatusOK || s.wire.requests() != 0 {
		t.Errorf("/livez answers %d, %d frames left", code, s.wire.requests())
	}
	server.open(t)
	p.awaitReady(t)
	r.awaitReady(t)
	p.pay(t, "key", ordinary, 10, netCancel).expect(t, "with a ledger", done)
	lost := p.pay(t, "lost", unansweredAccount, 10, netCancel)
	s.audit(t, p).expect(t, lost.id(), netCanceled)
}

// TestStart_BesideABusyWriter starts a service while another writes a SQLite
// ledger for longer than a single try waits.
func TestStart_BesideABusyWriter(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	s := newStack(t, db)
	s.startPayment(t)
	unlock := db.lock(t)
	p := s.spawnProcess(t, "payment", quick)
	r := s.spawnProcess(t, "reconciler", brisk)
	const longerThanATry = 2500 * time.Millisecond
	if closedWithin(p.exited, longerThanATry) || closedWithin(r.exited, 0) {
		t.Error("a service gave up")
	}
	unlock()
	p.awaitReady(t)
	r.awaitReady(t)
}
