package ledgertest

import (
	"strings"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

var outcomeCases = []conformance{
	{"outcome stores what came with it", outcomeStoresEverything},
	{"outcome stores zero values as zero", outcomeStoresZeroValues},
	{"what was stored of the exchange is not replaced", firstValuesStay},
	{"times are UTC in whole microseconds", timesAreMicroseconds},
	{"text that a database refuses does not lose the outcome", hostileText},
	{"resolved is what was unknown, by the clock of the database", resolvedByTheClock},
	{"lease ends with a final status", leaseEndsWhenFinal},
}

func outcomeStoresEverything(b *book) {
	t := b.requested()
	s := toSuccess
	s.Answer = ledger.Answer{Code: "0000", Message: "정상처리되었습니다", Approval: "99999999999"}
	s.Reason = "answered"
	s.SentAt = t.RequestedAt.Add(time.Millisecond)
	s.RespondedAt = t.RequestedAt.Add(3 * time.Second)
	s.Elapsed = 3*time.Second + 7*time.Microsecond
	want := t
	want.Status, want.Evidence, want.Answer, want.Reason = ledger.StatusSuccess, ledger.EvidenceAnswered, s.Answer, s.Reason
	want.SentAt, want.RespondedAt, want.Elapsed = s.SentAt, s.RespondedAt, s.Elapsed
	b.same("row", want, b.move(t.ID, s))
}

func outcomeStoresZeroValues(b *book) {
	in := b.intent()
	in.CorrelationID, in.By.TraceID, in.AccountHash = "", "", ledger.Hash{}
	t := b.create(in)
	t = b.move(t.ID, toUnknown)
	b.postpone(ledger.Postponement{ID: t.ID, Token: b.claim(1)[0].Token, Answered: true, NeedsReview: true})
	s := toLateDeclined
	s.Reason = ""
	got := b.move(t.ID, s)
	want := t
	want.Status, want.Evidence, want.Answer = ledger.StatusFailed, ledger.EvidenceAnswered, s.Answer
	want.Reason, want.NeedsReview, want.NextResolveAt, want.ResolveAttempts, want.Asked = "", false, time.Time{}, 1, true
	want.ResolvedAt = got.ResolvedAt
	b.same("row", want, got)
}

func firstValuesStay(b *book) {
	t := b.requested()
	first := toUnknown
	first.SentAt, first.RespondedAt = t.RequestedAt.Add(time.Second), t.RequestedAt.Add(2*time.Second)
	first.Elapsed = 3 * time.Second
	b.move(t.ID, first)
	second := toLateSuccess
	second.SentAt, second.RespondedAt = t.RequestedAt.Add(5*time.Second), t.RequestedAt.Add(6*time.Second)
	second.Elapsed = 7 * time.Second
	got := b.move(t.ID, second)
	if !got.SentAt.Equal(first.SentAt) || !got.RespondedAt.Equal(first.RespondedAt) || got.Elapsed != first.Elapsed {
		b.Errorf("sent at %s, responded at %s, elapsed %s", got.SentAt, got.RespondedAt, got.Elapsed)
	}
	third := b.unknown()
	canceled := toCanceled
	canceled.Answer = ledger.Answer{Message: "no code, no answer"}
	if got := b.move(third.ID, canceled); got.Answer != (ledger.Answer{}) {
		b.Errorf("answer %v without a code", got.Answer)
	}
}

func timesAreMicroseconds(b *book) {
	t := b.requested()
	s := toSuccess
	s.SentAt = time.Date(2026, 12, 31, 8, 59, 59, 999_999_999, time.FixedZone("Asia/Seoul", 9*3600))
	s.RespondedAt = time.Date(2026, 1, 1, 0, 0, 0, 1_000, time.UTC)
	s.Elapsed = 1_999 * time.Nanosecond
	got := b.move(t.ID, s)
	if want := time.Date(2026, 12, 30, 23, 59, 59, 999_999_000, time.UTC); got.SentAt != want {
		b.Errorf("sent at %v, want %v", got.SentAt, want)
	}
	if got.RespondedAt != s.RespondedAt || got.Elapsed != time.Microsecond {
		b.Errorf("responded at %v, elapsed %s", got.RespondedAt, got.Elapsed)
	}
}

func hostileText(b *book) {
	id := b.requested().ID
	s := toSuccess
	s.Answer.Message = "가\x00나\xff다\n'; DROP TABLE transactions; --"
	s.Reason = strings.Repeat("한", 2*ledger.MaxText)
	s.By.Instance = "payment-'\"\\"
	got := b.move(id, s)
	if want := "가\uFFFD나\uFFFD다\uFFFD'; DROP TABLE transactions; --"; got.Answer.Message != want {
		b.Errorf("message %q, want %q", got.Answer.Message, want)
	}
	if want := strings.Repeat("한", ledger.MaxText); got.Reason != want {
		b.Errorf("reason has %d bytes, want %d", len(got.Reason), len(want))
	}
	events := b.events(id)
	b.same("actor", s.By, events[1].By)
	b.same("detail", got.Reason, events[1].Detail)
}

func resolvedByTheClock(b *book) {
	for _, s := range []step{toSuccess, toDeclined, toNotSent} {
		if t := b.move(b.requested().ID, s); !t.ResolvedAt.IsZero() {
			b.Errorf("%s: resolved at %s, but never was unknown", s, t.ResolvedAt)
		}
	}
	for _, s := range []step{toLateSuccess, toProcessed, toCanceled} {
		t := b.move(b.unknown().ID, s)
		events := b.events(t.ID)
		if at := events[len(events)-1].At; !t.ResolvedAt.Equal(at) {
			b.Errorf("%s: resolved at %s, event of %s", s, t.ResolvedAt, at)
		}
		if !t.NextResolveAt.IsZero() || t.NeedsReview {
			b.Errorf("%s: still due at %s", s, t.NextResolveAt)
		}
	}
}

func leaseEndsWhenFinal(b *book) {
	id := b.unknown().ID
	claim := b.claim(1)[0]
	done := b.move(id, toCanceled)
	err := b.Postpone(b.ctx, ledger.Postponement{ID: id, Token: claim.Token, Answered: true, Detail: "x", By: resolver})
	b.lostTo(err, done)
	if err := b.Release(b.ctx, claim.Token); err != nil {
		b.Errorf("release: %v", err)
	}
	b.same("row", done, b.get(id))
}
