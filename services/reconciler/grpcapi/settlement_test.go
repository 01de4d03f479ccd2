package grpcapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/reconciler/settlement"
)

// starting is a Settler with one answer.
type starting struct {
	run   ledger.SettlementRun
	err   error
	asked tranid.Date
}

func (s *starting) Start(_ context.Context, day tranid.Date) (ledger.SettlementRun, error) {
	s.asked = day
	return s.run, s.err
}

var settledDay = func() tranid.Date {
	day, err := tranid.ParseDate("2026-01-05")
	if err != nil {
		panic(err)
	}
	return day
}()

// settled is a server over a ledger that has runs and discrepancies.
func settled(t *testing.T) (*server, *memstore.Store) {
	t.Helper()
	store := memstore.New(time.Now)
	return &server{settler: &starting{}, settlements: store, instance: "reconciler-test"}, store
}

func (s *server) begin(t *testing.T, store *memstore.Store, day tranid.Date) ledger.SettlementRun {
	t.Helper()
	run, begun, err := store.BeginSettlement(t.Context(), ledger.SettlementStart{Day: day, Lease: time.Hour})
	if err != nil || !begun {
		t.Fatalf("begun %t, error %v", begun, err)
	}
	return run
}

func refused(t *testing.T, what string, err error, want ledger.Reason) {
	t.Helper()
	var refusal *ledger.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

func TestRunSettlement_AnswersWithTheRun(t *testing.T) {
	s := &starting{run: ledger.SettlementRun{
		ID: "run-1", Day: settledDay, State: ledger.RunRunning, Scheduled: true, StartedAt: time.Unix(1, 0),
		Counts: ledger.SettlementCounts{Match: 1, Mismatch: 2, LedgerOnly: 3, CoreOnly: 4, Unresolved: 5, Unreadable: 6, Records: 7},
	}}
	res, err := (&server{settler: s}).RunSettlement(t.Context(), &reconciliationv1.RunSettlementRequest{BusinessDate: "2026-01-05"})
	if err != nil || s.asked != settledDay {
		t.Fatalf("asked for %s, error %v", s.asked, err)
	}
	r := res.GetRun()
	if r.GetRunId() != "run-1" || r.GetBusinessDate() != "2026-01-05" || r.GetState() != reconciliationv1.RunState_RUN_STATE_RUNNING ||
		!r.GetScheduled() || r.GetStartedAt().GetSeconds() != 1 || r.GetFinishedAt() != nil || r.GetError() != "" {
		t.Errorf("run %v", r)
	}
	counts := []int64{
		r.GetMatchCount(), r.GetMismatchCount(), r.GetLedgerOnlyCount(), r.GetCoreOnlyCount(), r.GetUnresolvedCount(),
		r.GetUnreadableCount(), r.GetRecordsRead(),
	}
	for i, n := range counts {
		if n != int64(i+1) {
			t.Errorf("counts %v", counts)
		}
	}
}

func TestRunSettlement_NamesTheReason(t *testing.T) {
	for _, tc := range []struct {
		date string
		err  error
		want ledger.Reason
	}{
		{"2026-02-30", nil, ledger.ReasonInvalidRequest},
		{"1999-12-31", nil, ledger.ReasonInvalidRequest},
		{"2026-01-05", settlement.ErrNotBegun, ledger.ReasonInvalidRequest},
		{"2026-01-05", fmt.Errorf("begin: %w", ledger.ErrDayRetired), ledger.ReasonInvalidRequest},
		{"2026-01-05", settlement.ErrBusy, ledger.ReasonRateLimited},
		{"2026-01-05", settlement.ErrStopped, ledger.ReasonLedgerUnavailable},
		{"2026-01-05", fmt.Errorf("begin: %w", ledger.ErrUnavailable), ledger.ReasonLedgerUnavailable},
		{"2026-01-05", errors.New("canary"), ledger.ReasonInternal},
	} {
		s := &server{settler: &starting{err: tc.err}}
		_, err := s.RunSettlement(t.Context(), &reconciliationv1.RunSettlementRequest{BusinessDate: tc.date})
		refused(t, fmt.Sprint(tc.date, tc.err), err, tc.want)
		refusal := &ledger.Refusal{}
		_ = errors.As(err, &refusal)
		if named := len(refusal.Fields) == 1 && refusal.Fields[0].Field == "business_date"; named != (tc.want == ledger.ReasonInvalidRequest) {
			t.Errorf("%s, %v: fields %v", tc.date, tc.err, refusal.Fields)
		}
		if (refusal.RetryAfter > 0) != (tc.want == ledger.ReasonRateLimited) {
			t.Errorf("%v: retry after %s", tc.err, refusal.RetryAfter)
		}
	}
}

func TestGetSettlementRun_ShowsWhyItFailed(t *testing.T) {
	s, store := settled(t)
	run := s.begin(t, store, settledDay)
	if err := store.EndSettlement(t.Context(), ledger.SettlementEnd{Run: run.ID, State: ledger.RunFailed, Error: "stopped"}); err != nil {
		t.Fatal(err)
	}
	res, err := s.GetSettlementRun(t.Context(), &reconciliationv1.GetSettlementRunRequest{RunId: string(run.ID)})
	if err != nil {
		t.Fatal(err)
	}
	if r := res.GetRun(); r.GetState() != reconciliationv1.RunState_RUN_STATE_FAILED || r.GetError() != "stopped" || r.GetFinishedAt() == nil {
		t.Errorf("run %v", r)
	}
	_, err = s.GetSettlementRun(t.Context(), &reconciliationv1.GetSettlementRunRequest{RunId: "no such run"})
	refused(t, "no such run", err, ledger.ReasonRunNotFound)
}

func TestListSettlementRuns_PagesUnderTheirFilters(t *testing.T) {
	s, store := settled(t)
	other, err := tranid.ParseDate("2026-01-06")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 6 {
		day := []tranid.Date{settledDay, other}[i%2]
		run := s.begin(t, store, day)
		if err := store.EndSettlement(t.Context(), ledger.SettlementEnd{Run: run.ID, State: ledger.RunSucceeded}); err != nil {
			t.Fatal(err)
		}
		if day == settledDay {
			want = append([]string{string(run.ID)}, want...)
		}
	}
	date := "2026-01-05"
	var got []string
	token := ""
	for range 3 {
		page, err := s.ListSettlementRuns(t.Context(), &reconciliationv1.ListSettlementRunsRequest{BusinessDate: &date, PageSize: 1, PageToken: token})
		if err != nil || len(page.GetRuns()) != 1 {
			t.Fatalf("%d runs, error %v", len(page.GetRuns()), err)
		}
		got = append(got, page.GetRuns()[0].GetRunId())
		if len(got) == 1 {
			_, err := s.ListSettlementRuns(t.Context(), &reconciliationv1.ListSettlementRunsRequest{PageToken: page.GetNextPageToken()})
			refused(t, "a token of another filter", err, ledger.ReasonInvalidRequest)
		}
		token = page.GetNextPageToken()
	}
	if strings.Join(got, " ") != strings.Join(want, " ") || token != "" {
		t.Errorf("runs %v, want %v; then %q", got, want, token)
	}
	bad := "2026-02-30"
	_, err = s.ListSettlementRuns(t.Context(), &reconciliationv1.ListSettlementRunsRequest{BusinessDate: &bad})
	refused(t, "a day that does not exist", err, ledger.ReasonInvalidRequest)
}

func TestDiscrepancies_AreListedAndNoted(t *testing.T) {
	s, store := settled(t)
	run := s.begin(t, store, settledDay)
	for n := range int64(3) {
		if _, err := store.SaveSettlement(t.Context(), ledger.SettlementProgress{Run: run.ID, Lease: time.Hour, Found: []ledger.Difference{{
			ID: tranid.New(settledDay, n), Class: ledger.ClassCoreOnly, LedgerStatus: ledger.StatusFailed, LedgerAmount: 5000,
			CoreState: ledger.CoreDone, CoreAmount: 4000,
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	first := string(tranid.New(settledDay, 0))
	res, err := s.NoteDiscrepancy(t.Context(), &reconciliationv1.NoteDiscrepancyRequest{DiscrepancyId: first, Note: "은행에 물어봄"})
	if err != nil {
		t.Fatal(err)
	}
	d := res.GetDiscrepancy()
	if d.GetDiscrepancyId() != first || d.GetTransactionId() != first || d.GetRunId() != string(run.ID) ||
		d.GetClass() != reconciliationv1.DiscrepancyClass_DISCREPANCY_CLASS_CORE_ONLY ||
		d.GetState() != reconciliationv1.DiscrepancyState_DISCREPANCY_STATE_NOTED ||
		d.GetLedgerStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED || d.GetLedgerAmount() != 5000 ||
		d.GetCoreState() != "00" || d.GetCoreAmount() != 4000 || d.GetNote() != "은행에 물어봄" || d.GetNotedBy() != "operator:local" ||
		d.GetFoundAt() == nil || d.GetClosedAt() != nil {
		t.Errorf("noted %v", d)
	}
	state, id := reconciliationv1.DiscrepancyState_DISCREPANCY_STATE_OPEN, string(run.ID)
	request := &reconciliationv1.ListDiscrepanciesRequest{RunId: &id, State: &state, PageSize: 1}
	for n := int64(2); n > 0; n-- {
		page, err := s.ListDiscrepancies(t.Context(), request)
		if err != nil || len(page.GetDiscrepancies()) != 1 || page.GetDiscrepancies()[0].GetTransactionId() != string(tranid.New(settledDay, n)) {
			t.Fatalf("page %v, error %v", page, err)
		}
		if request.PageToken = page.GetNextPageToken(); (request.GetPageToken() == "") != (n == 1) {
			t.Errorf("token %q after %d", request.GetPageToken(), n)
		}
	}
	for _, id := range []string{string(tranid.New(settledDay, 9)), "x"} {
		_, err = s.NoteDiscrepancy(t.Context(), &reconciliationv1.NoteDiscrepancyRequest{DiscrepancyId: id, Note: "x"})
		refused(t, "note of "+id, err, ledger.ReasonRunNotFound)
	}
}

func TestPageToken_OnlyThoseOfTheFiltersAreTaken(t *testing.T) {
	at := place{time.Unix(1_700_000_000, 123_000), "GWMNU20260105000000001"}
	token := at.token("x")
	got, err := parsePageToken(token, "x")
	if err != nil || !got.at.Equal(at.at) || got.id != at.id {
		t.Errorf("place %v, error %v", got, err)
	}
	if none, err := parsePageToken("", "x"); none != nil || err != nil {
		t.Errorf("no token: %v, %v", none, err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(change func(b []byte) []byte) string {
		return base64.RawURLEncoding.EncodeToString(change(append([]byte(nil), raw...)))
	}
	for what, bad := range map[string]string{
		"other filters":    at.token("y"),
		"another version":  encode(func(b []byte) []byte { b[0] = 2; return b }),
		"no ID":            encode(func(b []byte) []byte { return b[:tokenHead] }),
		"a long ID":        encode(func(b []byte) []byte { return append(b[:tokenHead], strings.Repeat("A", maxTokenID+1)...) }),
		"a byte of no ID":  encode(func(b []byte) []byte { b[len(b)-1] = 0; return b }),
		"a year past 9999": encode(func(b []byte) []byte { b[1+fingerprintLength] = 0x7f; return b }),
		"a line feed":      token[:10] + "\n" + token[10:],
		"padding":          token + "=",
		"nonsense":         "nonsense",
	} {
		if got, err := parsePageToken(bad, "x"); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
}
