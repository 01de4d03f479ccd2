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
	// Too slow for the payment service that waits for one second.
	{"33333333333333", netCanceled, confirmed, noMatter},
	{"22222222222222", declined, declined, declined},
}

// drippingAccount is answered byte by byte, for 1.2 s.
const drippingAccount = "33333333333333"

// TestHabits_EveryAccountEndsAsItShould makes a payment under either policy and
// a balance inquiry from each account with a habit.
func TestHabits_EveryAccountEndsAsItShould(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db, "--late-answer=10s")
		p := s.startPayment(t)
		hasty := s.startPayment(t, "--read-timeout=1s")
		patient := s.startPayment(t, "--read-timeout=15s", "--deadline=20s")
		s.startReconciler(t, "--sweep-interval=2s")
		m := &made{endings: map[string]ending{}}
		for i, h := range habits {
			who := p
			if h.number == drippingAccount {
				who = hasty
			}
			m.calls.Go(func() {
				a := who.pay(t, fmt.Sprintf("cancel-%d", i), h.number, 1000+int64(i), netCancel)
				m.note(t, a, h.number+" under NET_CANCEL", h.whenCanceled)
			})
			m.calls.Go(func() {
				a := who.pay(t, fmt.Sprintf("confirm-%d", i), h.number, 2000+int64(i), confirm)
				m.note(t, a, h.number+" under CONFIRM", h.whenConfirmed)
			})
		}
		m.calls.Go(func() {
			a := patient.pay(t, "patient", drippingAccount, 3000, netCancel)
			m.note(t, a, "byte by byte, for one who waits", done)
		})
		m.calls.Wait()
		for _, h := range habits {
			who := p
			if h.number == drippingAccount {
				who = hasty
			}
			m.calls.Go(func() { m.note(t, who.ask(t, h.number), "the balance of "+h.number, h.b) })
		}
		m.calls.Wait()
		// The books are looked at when the late originals have come.
		for _, id := range m.late {
			s.wire.await(t, fromCore, "0110", id, 1)
		}
		b := s.audit(t, p)
		for id, want := range m.endings {
			b.expect(t, id, want)
		}
		if want := 3*len(habits) + 1; len(b.rows) != want || len(m.endings) != want {
			t.Errorf("the ledger has %d rows, of %d calls", len(b.rows), want)
		}
	})
}

// made is calls, and what is to become of what they made.
type made struct {
	calls sync.WaitGroup

	mu      sync.Mutex
	endings map[string]ending
	// late are the payments that the core holds.
	late []string
}

// note checks what a caller was told, and remembers how it is to end.
func (m *made) note(t *testing.T, a told, what string, want ending) {
	t.Helper()
	a.expect(t, what, want)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endings[a.id()] = want
	if strings.HasPrefix(what, heldAccount) {
		m.late = append(m.late, a.id())
	}
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
