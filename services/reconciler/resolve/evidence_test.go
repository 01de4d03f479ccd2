package resolve

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// said is one answer of the core: a flag and a code, or no valid answer.
type said struct{ flag, code string }

var lost = said{}

func (s said) String() string {
	if s == lost {
		return "lost"
	}
	return s.flag + "/" + s.code
}

// evidenceCase is one combination of what the ledger holds and the core says.
type evidenceCase struct {
	policy   ledger.Policy
	decided  bool
	inquiry  said // to 0400
	cancel   said // to 0420
	fences   bool
	unsent   bool
	age      time.Duration // past adopt_at
	notFound int
}

func (c evidenceCase) String() string {
	return fmt.Sprintf("%s decided=%v 0410=%s 0430=%s fences=%v unsent=%v age=%s notFound=%d",
		c.policy, c.decided, c.inquiry, c.cancel, c.fences, c.unsent, c.age, c.notFound)
}

const testWindow = 10 * time.Minute

// evidenceTable is DESIGN §5's second table. A row applies when all of it is
// true; at most one does, and if none does the transaction stays UNKNOWN.
var evidenceTable = []struct {
	name     string
	applies  func(c evidenceCase) bool
	to       ledger.Status
	evidence ledger.Evidence
	method   ledger.Method
}{
	{"PROCESSED", func(c evidenceCase) bool {
		return c.inquiry == said{"01", "0000"} && c.policy == ledger.PolicyConfirm && !c.decided
	}, ledger.StatusSuccess, ledger.EvidenceProcessed, ledger.MethodStatusInquiry},
	{"CANCEL_CONFIRMED by inquiry", func(c evidenceCase) bool {
		return c.inquiry == said{"03", "0000"}
	}, ledger.StatusCanceled, ledger.EvidenceCancelConfirmed, ledger.MethodNetCancel},
	{"CANCEL_CONFIRMED by net cancel", func(c evidenceCase) bool {
		return cancelAllowed(c) && c.cancel == said{"01", "0000"}
	}, ledger.StatusCanceled, ledger.EvidenceCancelConfirmed, ledger.MethodNetCancel},
	{"FENCED", func(c evidenceCase) bool {
		return c.inquiry == said{"02", "0000"} && c.cancel == said{"02", "0000"} && c.fences
	}, ledger.StatusFailed, ledger.EvidenceFenced, ledger.MethodStatusInquiry},
	{"WINDOW_ELAPSED", func(c evidenceCase) bool {
		return c.inquiry == said{"02", "0000"} && c.cancel == said{"02", "0000"} && !c.fences &&
			c.notFound+1 >= 2 && c.age > testWindow
	}, ledger.StatusFailed, ledger.EvidenceWindowElapsed, ledger.MethodStatusInquiry},
}

// cancelAllowed says whether a 0420 may leave at all.
func cancelAllowed(c evidenceCase) bool {
	switch c.inquiry {
	case said{"02", "0000"}:
		return true
	case said{"01", "0000"}:
		return c.policy == ledger.PolicyNetCancel || c.decided
	default:
		return false
	}
}

func evidenceCases() []evidenceCase {
	inquiries := []said{
		lost,
		{"01", "0000"},
		{"02", "0000"},
		{"03", "0000"},
		{"04", "0000"},
		{"", "0000"},
		{"01", "0096"},
		{"02", "0096"},
		{"03", "9999"},
		{"01", "0094"},
	}
	cancels := []said{lost, {"01", "0000"}, {"02", "0000"}, {"03", "0000"}, {"", "0000"}, {"01", "0096"}, {"02", "0096"}}
	all := make([]evidenceCase, 0, 2*len(inquiries)*len(cancels)*8*3*3)
	for _, policy := range []ledger.Policy{ledger.PolicyNetCancel, ledger.PolicyConfirm} {
		for _, inquiry := range inquiries {
			for _, cancel := range cancels {
				for bits := range 8 {
					for _, age := range []time.Duration{0, testWindow, testWindow + time.Microsecond} {
						for notFound := range 3 {
							all = append(all, evidenceCase{
								policy: policy, inquiry: inquiry, cancel: cancel, age: age, notFound: notFound,
								decided: bits&1 != 0, fences: bits&2 != 0, unsent: bits&4 != 0,
							})
						}
					}
				}
			}
		}
	}
	return all
}

// TestResolution_OnlyTheEvidenceOfTheTableMakesARowFinal plays every
// combination through the real code and a real store, and holds the outcome
// against the table.
func TestResolution_OnlyTheEvidenceOfTheTableMakesARowFinal(t *testing.T) {
	seen := map[string]int{}
	for _, c := range evidenceCases() {
		seen[playEvidence(t, c)]++
		if t.Failed() {
			t.Fatalf("the first that failed: %s", c)
		}
	}
	for _, row := range evidenceTable {
		if seen[row.name] == 0 {
			t.Errorf("no case made %s apply", row.name)
		}
	}
	t.Logf("cases by what applied: %v", seen)
}

func playEvidence(t *testing.T, c evidenceCase) string {
	clock := time.Date(2026, 1, 5, 3, 0, 0, 0, time.UTC)
	now := func() time.Time { return clock }
	store := memstore.New(now)
	flags := testFlags()
	flags.CoreFences, flags.LateWindow = c.fences, testWindow
	h := newHouse(store, flags, now)
	id := put(t, store, now, unknown{
		number: 1, policy: c.policy, decided: c.decided, unsent: c.unsent, attempts: c.notFound, notFound: c.notFound,
	})
	before := get(t, store, id)
	clock = clock.Add(c.age) // since it became UNKNOWN, by the database's clock, whatever the host's said
	h.core.answers(func(_ context.Context, call corelink.Call, mti string, asked tranid.ID) corelink.Result {
		if asked != id {
			t.Errorf("%s asks about %s", mti, asked)
		}
		if mti == telegram.StatusRequestMTI {
			return reply0410(call, id, c.inquiry)
		}
		if get(t, store, id).Decision != ledger.DecisionCancel {
			t.Errorf("0420 left before the decision was stored")
		}
		return reply0430(call, id, c.cancel)
	})

	claims, err := store.Claim(t.Context(), ledger.ClaimOptions{Limit: 1, Lease: flags.Lease})
	must(t, err)
	if len(claims) != 1 {
		t.Fatalf("claimed %d rows", len(claims))
	}
	_, err = h.attempt(t.Context(), h.operator.turn(), claims[0], h.sweeper())
	must(t, err)
	applied := checkOutcome(t, c, before, get(t, store, id), now())
	if n := h.core.count("0400", id); n != 1 {
		t.Errorf("%d status inquiries in one pass", n)
	}
	if want := count(cancelAllowed(c)); h.core.count("0420", id) != want {
		t.Errorf("%d net cancels, want %d", h.core.count("0420", id), want)
	}
	return applied
}

func checkOutcome(t *testing.T, c evidenceCase, before, after ledger.Transaction, now time.Time) string {
	var applied []string
	want := ledger.Transaction{Status: ledger.StatusUnknown}
	for _, row := range evidenceTable {
		if row.applies(c) {
			applied = append(applied, row.name)
			want.Status, want.Evidence, want.Method = row.to, row.evidence, row.method
		}
	}
	if len(applied) > 1 {
		t.Fatalf("the table contradicts itself: %v", applied)
	}
	if after.Status != want.Status || after.Evidence != want.Evidence || after.Method != want.Method {
		t.Errorf("%s %q by %q, want %s %q by %q", after.Status, after.Evidence, after.Method, want.Status, want.Evidence, want.Method)
	}
	if decided := c.decided || cancelAllowed(c); (after.Decision == ledger.DecisionCancel) != decided {
		t.Errorf("decision %q, want one: %v", after.Decision, decided)
	}
	if after.Answer != before.Answer || !after.SentAt.Equal(before.SentAt) || after.Elapsed != before.Elapsed {
		t.Errorf("resolution rewrote what the exchange left: %+v", after)
	}
	if len(applied) == 1 {
		if !after.NextResolveAt.IsZero() || after.ResolvedAt.IsZero() || after.Reason == before.Reason {
			t.Errorf("final, but %+v", after)
		}
		return applied[0]
	}
	spent, notFound := count(c.inquiry != lost), count(c.inquiry == said{"02", "0000"})
	if after.ResolveAttempts != before.ResolveAttempts+spent || after.NotFound != before.NotFound+notFound {
		t.Errorf("attempts %d, not found %d; before %d and %d", after.ResolveAttempts, after.NotFound, before.ResolveAttempts, before.NotFound)
	}
	if !after.NextResolveAt.After(now) || after.NeedsReview {
		t.Errorf("stays UNKNOWN, but %+v", after)
	}
	return "none"
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func reply0410(call corelink.Call, id tranid.ID, s said) corelink.Result {
	if s == lost {
		return corelink.Result{Sent: corelink.SentAll, Err: corelink.ErrTimeout}
	}
	return delivered(call, answer0410(id, s.flag, s.code))
}

func reply0430(call corelink.Call, id tranid.ID, s said) corelink.Result {
	if s == lost {
		return corelink.Result{Sent: corelink.SentAll, Err: corelink.ErrTimeout}
	}
	return delivered(call, answer0430(id, s.flag, s.code))
}
