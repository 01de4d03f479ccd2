package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// habitAccounts are the simulator's accounts with a habit.
var habitAccounts = map[string]string{
	"00000000000000": "does not exist",
	"99999999999999": "answers late",
	"88888888888888": "closes without doing or answering",
	"77777777777777": "answers garbage",
	"66666666666666": "answers letters in a digit field",
	"55555555555555": "is done late",
	"44444444444444": "closes without answering",
	"33333333333333": "answers byte by byte",
	"22222222222222": "declines",
}

// ending is what a caller is told of a call, and what becomes of its row and at
// the core in the end.
type ending struct {
	// What the caller is told.
	code   codes.Code
	reason string
	// The row, when the call has ended and when it is final.
	first, status, evidence, method string
	response                        string
	// The core's journal.
	debits, cancels, fences int
}

// The endings there are. Counted are frames with an effect, not frames.
var (
	done = ending{
		code: codes.OK, first: "SUCCESS", status: "SUCCESS", evidence: "ANSWERED", response: "0000", debits: 1,
	}
	noAccount = ending{
		code: codes.NotFound, reason: "ACCOUNT_NOT_FOUND", first: "FAILED", status: "FAILED", evidence: "ANSWERED", response: "0001",
	}
	declined = ending{
		code: codes.FailedPrecondition, reason: "DECLINED", first: "FAILED", status: "FAILED", evidence: "ANSWERED", response: "0051",
	}
	netCanceled = ending{
		code: codes.DeadlineExceeded, reason: "OUTCOME_UNKNOWN", first: "UNKNOWN",
		status: "CANCELED", evidence: "CANCEL_CONFIRMED", method: "NET_CANCEL", debits: 1, cancels: 1,
	}
	confirmed = ending{
		code: codes.DeadlineExceeded, reason: "OUTCOME_UNKNOWN", first: "UNKNOWN",
		status: "SUCCESS", evidence: "PROCESSED", method: "STATUS_INQUIRY", debits: 1,
	}
	fencedOff = ending{
		code: codes.DeadlineExceeded, reason: "OUTCOME_UNKNOWN", first: "UNKNOWN",
		status: "FAILED", evidence: "FENCED", method: "STATUS_INQUIRY", fences: 1,
	}
	balanceTold = ending{
		code: codes.OK, first: "SUCCESS", status: "SUCCESS", evidence: "ANSWERED", response: "0000",
	}
	noMatter = ending{
		code: codes.DeadlineExceeded, reason: "OUTCOME_UNKNOWN", first: "UNKNOWN",
		status: "FAILED", evidence: "NO_EFFECT", method: "NONE",
	}
)

// habits is every account with a habit, and an ordinary one, with how a payment
// under either policy ends, and a balance inquiry.
var habits = []struct {
	number                         string
	whenCanceled, whenConfirmed, b ending
}{
	{ordinary, done, done, balanceTold},
	{"00000000000000", noAccount, noAccount, noAccount},
	{"99999999999999", netCanceled, confirmed, noMatter},
	{"88888888888888", fencedOff, fencedOff, noMatter},
	{"77777777777777", netCanceled, confirmed, noMatter},
	{"66666666666666", netCanceled, confirmed, noMatter},
	{"55555555555555", fencedOff, fencedOff, noMatter},
	{"44444444444444", netCanceled, confirmed, noMatter},
	// Too slow for a payment service that waits for one second.
	{"33333333333333", netCanceled, confirmed, noMatter},
	{"22222222222222", declined, declined, declined},
}

// TestHabits_EveryAccountEndsAsItShould makes a payment under either policy and
// a balance inquiry from each account with a habit, all at a time.
func TestHabits_EveryAccountEndsAsItShould(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db, "--late-answer=4s")
		p := s.startPayment(t)
		patient := s.startPayment(t, "--read-timeout=10s", "--deadline=15s")
		s.startReconciler(t)

		made := map[string]ending{}
		var mu sync.Mutex
		note := func(a told, e ending) {
			mu.Lock()
			defer mu.Unlock()
			made[a.id()] = e
		}
		var calls sync.WaitGroup
		for i, h := range habits {
			calls.Go(func() {
				a := p.pay(t, fmt.Sprintf("cancel-%d", i), h.number, 1000+int64(i), netCancel)
				a.expect(t, h.number+" under NET_CANCEL", h.whenCanceled)
				note(a, h.whenCanceled)
			})
			calls.Go(func() {
				a := p.pay(t, fmt.Sprintf("confirm-%d", i), h.number, 2000+int64(i), confirm)
				a.expect(t, h.number+" under CONFIRM", h.whenConfirmed)
				note(a, h.whenConfirmed)
			})
			calls.Go(func() {
				a := p.ask(t, h.number)
				a.expect(t, "the balance of "+h.number, h.b)
				note(a, h.b)
			})
		}
		calls.Go(func() {
			a := patient.pay(t, "patient", "33333333333333", 3000, netCancel)
			a.expect(t, "byte by byte, for one who waits", done)
			note(a, done)
		})
		calls.Wait()
		for id, e := range made {
			if e == fencedOff && len(s.wire.sightings(fromCore, "0410", id)) == 0 {
				p.follow(t, id)
			}
		}
		if len(made) != 3*len(habits)+1 {
			t.Fatalf("%d transactions, of %d calls", len(made), 3*len(habits)+1)
		}
		b := s.audit(t, p)
		for id, want := range made {
			b.expect(t, id, want)
		}
		if len(b.rows) != len(made) {
			t.Errorf("the ledger has %d rows, and %d calls were made", len(b.rows), len(made))
		}
	})
}

// expect compares what a caller was told with what was to be told.
func (a told) expect(t testing.TB, what string, want ending) {
	t.Helper()
	switch {
	case a.code != want.code || a.reason() != want.reason:
		t.Errorf("%s: the caller is told %s, not %s %s", what, a, want.code, want.reason)
		return
	case a.row == nil:
		t.Errorf("%s: the answer carries no transaction: %s", what, a)
		return
	case len(a.correlation) != 1 || a.correlation[0] != a.row.GetCorrelationId() || a.correlation[0] == "":
		t.Errorf("%s: the header has correlation ID %q, the row has %q", what, a.correlation, a.row.GetCorrelationId())
	case a.replayed:
		t.Errorf("%s: it is called a replay", what)
	}
	if got := statusName(a.row); got != want.first {
		t.Errorf("%s: the row is %s when the caller is answered, not %s", what, got, want.first)
	}
	if want.response != a.row.GetResponseCode() {
		t.Errorf("%s: the response code is %q, not %q", what, a.row.GetResponseCode(), want.response)
	}
	if a.err == nil {
		return
	}
	if got, want := fmt.Sprint(a.info.GetMetadata()), fmt.Sprint(metadataOf(a)); got != want || a.info.GetDomain() != "gwanmun" {
		t.Errorf("%s: domain %q, metadata %s, not %s", what, a.info.GetDomain(), got, want)
	}
	if len(a.message) > 256 || a.message == "" || strings.Contains(a.message, "127.0.0.1") {
		t.Errorf("%s: the message is %q", what, a.message)
	}
}

// metadataOf is what the ErrorInfo has to say about the transaction that is
// attached to it.
func metadataOf(a told) map[string]string {
	m := map[string]string{
		"transaction_id": a.id(), "ledger_status": statusName(a.row), "correlation_id": strings.Join(a.correlation, ","),
	}
	if code := a.row.GetResponseCode(); code != "" {
		m["response_code"] = code
	}
	if a.replayed {
		m["replayed"] = "true"
	}
	return m
}

// expect compares a final row, and what the core did about it, with what was to
// become of it.
func (b *books) expect(t testing.TB, id string, want ending) {
	t.Helper()
	row, f := b.rows[id], b.of(id)
	got := ending{
		code: want.code, reason: want.reason, first: want.first,
		status: statusName(row), evidence: short(row.GetEvidence(), "EVIDENCE_"),
		method:   short(row.GetResolutionMethod(), "RESOLUTION_METHOD_"),
		response: row.GetResponseCode(),
		debits:   f.effects[debited], cancels: f.effects[undone], fences: f.effects[fenced],
	}
	if got != want {
		t.Errorf("%s (%s, %d won) ended as\n %+v, not\n %+v", id, row.GetAccountMasked(), row.GetAmount(), got, want)
	}
}

// statusName is the status of a row without the enum's name.
func statusName(row *ledgerv1.Transaction) string {
	return short(row.GetStatus(), "TRANSACTION_STATUS_")
}
