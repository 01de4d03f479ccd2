package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// spoiled are rows that break one invariant each, by its name.
var spoiled = []struct {
	rule   string
	status ledger.Status
	kind   ledger.Kind
	spoil  func(t *ledger.Transaction)
}{
	{"transaction_id", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.ID = "" }},
	{"transaction_id", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.ID = "GWMNU20260230000000001" }},
	{"kind", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Kind = 0 }},
	{"kind", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Kind = 9 }},
	{"standing", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Status = 0 }},
	{"standing", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Evidence = ledger.EvidenceAnswered }},
	{"standing", ledger.StatusSuccess, ledger.KindPayment, func(t *ledger.Transaction) { t.Evidence = 0 }},
	{"standing", ledger.StatusSuccess, ledger.KindPayment, func(t *ledger.Transaction) { t.Evidence = ledger.EvidenceNotSent }},
	{"standing", ledger.StatusSuccess, ledger.KindPayment, func(t *ledger.Transaction) { t.Decision = ledger.DecisionCancel }},
	{"standing", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) { t.Evidence = 0 }},
	{"standing", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) {
		t.Evidence, t.Method, t.ResolvedAt = ledger.EvidenceFenced, ledger.MethodStatusInquiry, noon // without a decision
	}},
	{"standing", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) {
		t.Evidence, t.Method, t.ResolvedAt = ledger.EvidenceNoEffect, ledger.MethodNone, noon // but it moves money
	}},
	{"standing", ledger.StatusCanceled, ledger.KindPayment, func(t *ledger.Transaction) { t.Method = 0 }},
	{"standing", ledger.StatusUnknown, ledger.KindPayment, func(t *ledger.Transaction) { t.Method = ledger.MethodNone }},
	{"decision", ledger.StatusUnknown, ledger.KindPayment, func(t *ledger.Transaction) { t.Decision = 2 }},
	{"decision", ledger.StatusUnknown, ledger.KindBalanceInquiry, func(t *ledger.Transaction) { t.Decision = ledger.DecisionCancel }},
	{"review", ledger.StatusSuccess, ledger.KindPayment, func(t *ledger.Transaction) { t.NeedsReview = true }},
	{"policy", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Policy = 0 }},
	{"policy", ledger.StatusUnknown, ledger.KindBalanceInquiry, func(t *ledger.Transaction) { t.Policy = ledger.PolicyConfirm }},
	{"amount", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Amount = 0 }},
	{"amount", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Amount = account.MaxPayment + 1 }},
	{"amount", ledger.StatusUnknown, ledger.KindBalanceInquiry, func(t *ledger.Transaction) { t.Amount = 1 }},
	{"idempotency_key", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Key = "" }},
	{"idempotency_key", ledger.StatusUnknown, ledger.KindBalanceInquiry, func(t *ledger.Transaction) { t.Key = "key" }},
	{"names", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Client = "" }},
	{"names", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Order = ledger.OrderID(strings.Repeat("x", 65)) }},
	{"names", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.CorrelationID = strings.Repeat("x", 65) }},
	{"names", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.TraceID = "0" }},
	{"account_masked", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.AccountMasked = "" }},
	{"account_masked", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.AccountMasked = "12345678901234" }},
	{"account_masked", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.AccountMasked = "1234567****1234" }},
	{"account_masked", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.AccountMasked = "123456****12345" }},
	{"account_masked", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.AccountMasked = "12*****34" }},
	{"answer", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) { t.Answer.Code = "51" }},
	{"answer", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) { t.Answer.Approval = "1" }},
	{"answer", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) { t.Reason = strings.Repeat("가", 301) }},
	{"answered", ledger.StatusSuccess, ledger.KindPayment, func(t *ledger.Transaction) { t.Answer.Code = "0051" }},
	{"answered", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) { t.Answer.Code = "0000" }},
	{"answered", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) { t.Answer.Code = "" }},
	{"answered", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) { t.Answer.Code = "0094" }},
	{"answered", ledger.StatusUnknown, ledger.KindPayment, func(t *ledger.Transaction) { t.Answer.Code = "0000" }},
	{"answered", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Answer.Code = "0000" }},
	{"answered", ledger.StatusCanceled, ledger.KindPayment, func(t *ledger.Transaction) { t.Answer.Code = "0094" }},
	{"answered", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) {
		t.Evidence, t.Answer.Code, t.SentAt = ledger.EvidenceNotSent, "", noon
	}},
	{"times", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.RequestedAt = time.Time{} }},
	{"times", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.AdoptAt = time.Time{} }},
	{"times", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Elapsed = -1 }},
	{"times", ledger.StatusUnknown, ledger.KindPayment, func(t *ledger.Transaction) { t.ResolvedAt = noon }},
	{"times", ledger.StatusCanceled, ledger.KindPayment, func(t *ledger.Transaction) { t.ResolvedAt = time.Time{} }},
	{"due", ledger.StatusUnknown, ledger.KindPayment, func(t *ledger.Transaction) { t.NextResolveAt = time.Time{} }},
	{"due", ledger.StatusUnknown, ledger.KindPayment, func(t *ledger.Transaction) { t.Answer.Code = "0094" }},
	{"due", ledger.StatusSuccess, ledger.KindPayment, func(t *ledger.Transaction) { t.NextResolveAt = noon }},
	{"counters", ledger.StatusUnknown, ledger.KindPayment, func(t *ledger.Transaction) { t.ResolveAttempts = -1 }},
	{"counters", ledger.StatusUnknown, ledger.KindPayment, func(t *ledger.Transaction) { t.NotFound = -1 }},
	{"asked", ledger.StatusUnknown, ledger.KindPayment, func(t *ledger.Transaction) { t.ResolveAttempts = 1 }},
	{"asked", ledger.StatusUnknown, ledger.KindPayment, func(t *ledger.Transaction) { t.NotFound = 1 }},
	{"asked", ledger.StatusRequested, ledger.KindPayment, func(t *ledger.Transaction) { t.Asked = true }},
	{"asked", ledger.StatusFailed, ledger.KindPayment, func(t *ledger.Transaction) {
		t.Evidence, t.Answer.Code, t.Asked = ledger.EvidenceNotSent, "", true
	}},
}

func TestValidate_NamesTheRuleThatIsBroken(t *testing.T) {
	for _, c := range spoiled {
		sound := row(c.status, 0, c.kind)
		if err := sound.Validate(); err != nil {
			t.Fatalf("%s %s: %v", c.status, c.kind, err)
		}
		c.spoil(&sound)
		err := sound.Validate()
		if !errors.Is(err, ledger.ErrInvalidRow) || !strings.HasSuffix(err.Error(), ": "+c.rule) {
			t.Errorf("%s %s: error %v, want %s", c.status, c.kind, err, c.rule)
		}
	}
}

func TestValidate_AllowsWhatAnOperatorSettles(t *testing.T) {
	for _, status := range []ledger.Status{ledger.StatusSuccess, ledger.StatusFailed, ledger.StatusCanceled} {
		settled := row(ledger.StatusUnknown, 0, ledger.KindPayment)
		settled.Status, settled.Evidence, settled.Method = status, ledger.EvidenceOperator, ledger.MethodOperator
		settled.ResolvedAt, settled.Answer.Code = noon, ledger.CodeIDUsed
		if status != ledger.StatusSuccess {
			settled.Decision = ledger.DecisionCancel // and its net cancel is due still
		} else {
			settled.NextResolveAt = time.Time{}
		}
		if err := settled.Validate(); err != nil {
			t.Errorf("%s: %v", status, err)
		}
	}
}

func TestText_IsWhatEveryDatabaseTakes(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"정상처리":                   "정상처리",
		"a\x00b\x1bc\r\nd\x7fe":  "a\uFFFDb\uFFFDc\uFFFD\uFFFDd\uFFFDe",
		"\xff\xfe가\xea\xb0":      "\uFFFD가\uFFFD",
		"tab\there":              "tab\uFFFDhere",
		strings.Repeat("가", 301): strings.Repeat("가", 300),
		strings.Repeat("a", 300): strings.Repeat("a", 300),
	} {
		if got := ledger.Text(in); got != want {
			t.Errorf("%.40q: %.40q, want %.40q", in, got, want)
		}
	}
}

func TestMoment_IsUTCInWholeMicroseconds(t *testing.T) {
	in := time.Date(2026, 7, 26, 1, 2, 3, 4_567, time.FixedZone("", 9*3600))
	if got, want := ledger.Moment(in), time.Date(2026, 7, 25, 16, 2, 3, 4_000, time.UTC); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := ledger.Moment(time.Time{}); !got.IsZero() {
		t.Errorf("no time became %v", got)
	}
	if got := ledger.Moment(time.Now()); got != got.Round(0) {
		t.Error("a monotonic reading is kept, and == fails")
	}
}

func TestEvent_ValidateRefusesWhatNoHistoryHolds(t *testing.T) {
	by := ledger.Actor{Name: "payment"}
	sound := ledger.NewEvent(0, ledger.StatusRequested, 0, noon, by, "")
	if err := sound.Validate(); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(e *ledger.Event){
		"no status after":   func(e *ledger.Event) { e.To = 0 },
		"no such status":    func(e *ledger.Event) { e.From = 9 },
		"no such evidence":  func(e *ledger.Event) { e.Evidence = 99 },
		"no time":           func(e *ledger.Event) { e.At = time.Time{} },
		"no actor":          func(e *ledger.Event) { e.By.Name = "" },
		"long actor":        func(e *ledger.Event) { e.By.Name = strings.Repeat("x", 101) },
		"long instance":     func(e *ledger.Event) { e.By.Instance = strings.Repeat("x", 101) },
		"trace of no trace": func(e *ledger.Event) { e.By.TraceID = "0" },
	} {
		e := sound
		spoil(&e)
		if err := e.Validate(); !errors.Is(err, ledger.ErrInvalidRow) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

func TestErrors_SayWhatTheyAre(t *testing.T) {
	lost := &ledger.LostError{Current: row(ledger.StatusSuccess, 0, ledger.KindPayment)}
	if !errors.Is(lost, ledger.ErrLost) || !strings.Contains(lost.Error(), "GWMNU20260725000000001 is SUCCESS") {
		t.Error(lost)
	}
	cause := errors.New("cause")
	refusal := &ledger.Refusal{Reason: ledger.ReasonDeclined, Err: cause}
	if !errors.Is(refusal, cause) || refusal.Error() != "DECLINED: cause" {
		t.Error(refusal)
	}
	if bare := (&ledger.Refusal{Reason: ledger.ReasonInProgress}).Error(); bare != "IN_PROGRESS" {
		t.Error(bare)
	}
}
