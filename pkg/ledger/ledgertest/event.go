package ledgertest

import (
	"errors"
	"sync/atomic"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

var eventCases = []conformance{
	{"event is appended to a row of any status and changes none", eventsAreAppended},
	{"event that no history may hold is refused", invalidEvents},
	{"events are numbered upwards in the order of the moves", eventsAreOrdered},
	{"events of one row are not another's", eventsOfOneRow},
	{"events of nothing are empty", eventsOfNothing},
	{"events from many goroutines are all kept", eventsAtOnce},
}

func eventsAreAppended(b *book) {
	for _, steps := range [][]step{{}, {toUnknown}, {toSuccess}, {toUnknown, toCanceled}} {
		t := b.requested()
		for _, s := range steps {
			t = b.move(t.ID, s)
		}
		before := b.events(t.ID)
		by := ledger.Actor{Name: "operator:ops-1", Instance: "reconciler-2", TraceID: payer.TraceID}
		if err := b.AppendEvent(b.ctx, t.ID, ledger.EvidenceProcessed, by, "the core says otherwise 원장"); err != nil {
			b.Fatal(err)
		}
		after := b.events(t.ID)
		if len(after) != len(before)+1 {
			b.Fatalf("%d events after %d", len(after), len(before))
		}
		last := after[len(before)]
		b.same("event", ledger.Event{
			Sequence: last.Sequence, At: last.At, From: t.Status, To: t.Status, Evidence: ledger.EvidenceProcessed,
			By: by, Detail: "the core says otherwise 원장",
		}, last)
		b.same("history before", before, after[:len(before)])
		b.same("row", t, b.get(t.ID))
	}
}

func invalidEvents(b *book) {
	t := b.requested()
	b.fails("no actor", b.AppendEvent(b.ctx, t.ID, 0, ledger.Actor{}, "x"), ledger.ErrInvalidRow)
	b.fails("half a trace", b.AppendEvent(b.ctx, t.ID, 0, ledger.Actor{Name: "payment", TraceID: "0"}, "x"), ledger.ErrInvalidRow)
	b.fails("unknown evidence", b.AppendEvent(b.ctx, t.ID, 99, payer, "x"), ledger.ErrInvalidRow)
	if n := len(b.events(t.ID)); n != 1 {
		b.Errorf("%d events, want 1", n)
	}
}

func eventsAreOrdered(b *book) {
	t := b.unknown()
	claim := b.claim(1)[0]
	b.postpone(ledger.Postponement{ID: t.ID, Token: claim.Token, Detail: "no answer"})
	b.decide(t.ID)
	b.move(t.ID, toCanceled)
	events := b.events(t.ID)
	want := []ledger.Status{
		0, ledger.StatusRequested, ledger.StatusUnknown, ledger.StatusUnknown, ledger.StatusUnknown, ledger.StatusCanceled,
	}
	if len(events) != len(want)-1 {
		b.Fatalf("%d events, want %d", len(events), len(want)-1)
	}
	for i, e := range events {
		if e.From != want[i] || e.To != want[i+1] {
			b.Errorf("event %d: %s to %s, want %s to %s", i, e.From, e.To, want[i], want[i+1])
		}
		if i > 0 && (e.Sequence <= events[i-1].Sequence || e.At.Before(events[i-1].At)) {
			b.Errorf("event %d: sequence %d at %s after %d at %s",
				i, e.Sequence, e.At, events[i-1].Sequence, events[i-1].At)
		}
	}
}

func eventsOfOneRow(b *book) {
	one, other := b.requested(), b.requested()
	b.move(one.ID, toSuccess)
	if n := len(b.events(other.ID)); n != 1 {
		b.Errorf("%d events of the other, want 1", n)
	}
}

func eventsOfNothing(b *book) {
	b.requested()
	if events := b.events(b.newID()); len(events) != 0 {
		b.Errorf("%d events of nothing", len(events))
	}
	if events := b.events(""); len(events) != 0 {
		b.Errorf("%d events of no ID", len(events))
	}
}

func eventsAtOnce(b *book) {
	id := b.unknown().ID
	var moved atomic.Int64
	together(16, func(i int) {
		if i%4 == 0 {
			_, err := b.Transition(b.ctx, toCanceled.of(id))
			if err == nil {
				moved.Add(1)
			} else if !errors.Is(err, ledger.ErrLost) {
				b.Errorf("move: %v", err)
			}
			return
		}
		if err := b.AppendEvent(b.ctx, id, 0, payer, "seen"); err != nil {
			b.Errorf("append: %v", err)
		}
	})
	events := b.events(id)
	if len(events) != 2+12+int(moved.Load()) || moved.Load() != 1 {
		b.Errorf("%d events, %d moves", len(events), moved.Load())
	}
	final := false
	for _, e := range events {
		if final && e.From != ledger.StatusCanceled {
			b.Errorf("event %d is from %s, after the row was canceled", e.Sequence, e.From)
		}
		final = final || e.To == ledger.StatusCanceled
	}
}
