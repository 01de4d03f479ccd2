package ledgertest

import (
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

var backlogCases = []conformance{
	{"backlog of nothing unknown is empty", backlogOfNothing},
	{"backlog counts what is unknown, and the oldest", backlogCounts},
	{"payments that are unknown are counted by client", unknownOfClients},
}

func (b *book) backlog() ledger.Backlog {
	b.Helper()
	backlog, err := b.Backlog(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	return backlog
}

func backlogOfNothing(b *book) {
	b.same("empty book", ledger.Backlog{}, b.backlog())
	b.requested()
	b.abandoned()
	b.move(b.requested().ID, toSuccess)
	b.move(b.unknown().ID, toCanceled)
	b.same("nothing unknown", ledger.Backlog{}, b.backlog())
}

func backlogCounts(b *book) {
	start := b.statuses() // four unknown, requested three hours after the first
	b.same("unknown payments", ledger.Backlog{Unknown: 4, OldestUnknown: start.Add(3 * time.Hour)}, b.backlog())
	inquiry := b.inquiry()
	inquiry.Status, inquiry.Evidence, inquiry.Answer, inquiry.RespondedAt = ledger.StatusUnknown, 0, ledger.Answer{}, time.Time{}
	inquiry.RequestedAt = start.Add(-time.Hour)
	if err := b.Record(b.ctx, []ledger.Transaction{inquiry}, payer); err != nil {
		b.Fatal(err)
	}
	b.move(b.requested().ID, toUsedID) // in review, and never due
	reviewed := b.claim(1)[0]
	b.postpone(ledger.Postponement{ID: reviewed.Transaction.ID, Token: reviewed.Token, NeedsReview: true, Delay: time.Hour})
	want := ledger.Backlog{Unknown: 6, OldestUnknown: start.Add(-time.Hour), NeedsReview: 2}
	b.same("an inquiry and two in review besides", want, b.backlog())
	b.move(inquiry.ID, toNoEffect)
	want.Unknown, want.OldestUnknown = 5, start.Add(3*time.Hour)
	if reviewed.Transaction.ID == inquiry.ID {
		want.NeedsReview = 1
	}
	b.same("once the oldest is settled", want, b.backlog())
}

func unknownOfClients(b *book) {
	counted := func(want map[ledger.ClientID]int64) {
		b.Helper()
		counts, err := b.UnknownOfClients(b.ctx)
		if err != nil {
			b.Fatal(err)
		}
		b.same("unknown of clients", want, counts)
	}
	counted(nil)
	inquiry := b.inquiry()
	inquiry.Status, inquiry.Evidence, inquiry.Answer, inquiry.RespondedAt = ledger.StatusUnknown, 0, ledger.Answer{}, time.Time{}
	if err := b.Record(b.ctx, []ledger.Transaction{inquiry}, payer); err != nil {
		b.Fatal(err)
	}
	b.requested()
	counted(nil)
	mine := b.unknown()
	b.review(b.unknown().ID)
	other := b.intent()
	other.Client = "another"
	b.create(other)
	b.move(other.ID, toUsedID)
	counted(map[ledger.ClientID]int64{mine.Client: 2, "another": 1})
	b.move(mine.ID, toCanceled)
	b.move(other.ID, toSettledDone)
	counted(map[ledger.ClientID]int64{mine.Client: 1})
}
