package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var readerCases = []conformance{
	{"what is not there is not found", nothingIsFound},
	{"summary counts and sums by status", summaryCounts},
	{"summary of a client and a period is of these alone", summaryIsBounded},
	{"summary of nothing is empty", summaryOfNothing},
}

var blockCases = []conformance{
	{"blocks of a day follow one another", blocksFollow},
	{"blocks start at the floor", blocksStartAtFloor},
	{"blocks of two days are apart", blocksOfTwoDays},
	{"blocks end with the day's numbers", blocksEnd},
	{"blocks for many at once never overlap", blocksAtOnce},
	{"blocks of no day or no numbers are refused", blockArguments},
}

var contextCases = []conformance{
	{"store that is open can be written", openStoreAnswersPing},
	{"call whose context is done changes nothing", doneContext},
}

func nothingIsFound(b *book) {
	in := b.intent()
	b.create(in)
	b.absent(b.newID())
	for _, key := range []struct {
		client ledger.ClientID
		key    ledger.IdempotencyKey
	}{{"another", in.Key}, {in.Client, "another"}, {"", in.Key}, {in.Client, ""}, {"%", "%"}} {
		_, err := b.GetByKey(b.ctx, key.client, key.key)
		b.fails(fmt.Sprintf("key %q of %q", key.key, key.client), err, ledger.ErrNotFound)
	}
}

// statuses makes rows of every status, 1 requested of 1 won to 5 canceled of 5
// won each, an hour apart, and returns when the first was requested.
func (b *book) statuses() time.Time {
	b.Helper()
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for i, steps := range [][]step{{}, {toSuccess}, {toDeclined}, {toUnknown}, {toUnknown, toCanceled}} {
		for range i + 1 {
			in := b.intent()
			in.Amount, in.RequestedAt = account.Won(i+1), start.Add(time.Duration(i)*time.Hour)
			b.create(in)
			for _, s := range steps {
				b.move(in.ID, s)
			}
		}
	}
	return start
}

func (b *book) summarize(client ledger.ClientID, from, to time.Time) ledger.Summary {
	b.Helper()
	sum, err := b.Summarize(b.ctx, client, from, to)
	if err != nil {
		b.Fatal(err)
	}
	return sum
}

func summaryCounts(b *book) {
	start := b.statuses()
	reviewed := b.claim(1)[0]
	b.postpone(ledger.Postponement{ID: reviewed.Transaction.ID, Token: reviewed.Token, NeedsReview: true})
	b.same("summary", ledger.Summary{
		Totals: []ledger.Total{
			{Status: ledger.StatusRequested, Count: 1, Amount: 1},
			{Status: ledger.StatusSuccess, Count: 2, Amount: 4},
			{Status: ledger.StatusFailed, Count: 3, Amount: 9},
			{Status: ledger.StatusUnknown, Count: 4, Amount: 16},
			{Status: ledger.StatusCanceled, Count: 5, Amount: 25},
		},
		UnknownCount: 4, OldestUnknown: start.Add(3 * time.Hour), NeedsReviewCount: 1,
	}, b.summarize("", time.Time{}, time.Time{}))
}

func summaryIsBounded(b *book) {
	start := b.statuses()
	other := b.intent()
	other.Client, other.RequestedAt, other.Amount = "another", start.Add(time.Hour), account.MaxPayment
	b.create(other)
	b.same("of one client", []ledger.Total{{Status: ledger.StatusRequested, Count: 1, Amount: account.MaxPayment}},
		b.summarize("another", time.Time{}, time.Time{}).Totals)
	b.same("from inclusive to exclusive", []ledger.Total{
		{Status: ledger.StatusSuccess, Count: 2, Amount: 4}, {Status: ledger.StatusFailed, Count: 3, Amount: 9},
	}, b.summarize("shop", start.Add(time.Hour), start.Add(3*time.Hour)).Totals)
	b.same("from a microsecond later", []ledger.Total{{Status: ledger.StatusCanceled, Count: 5, Amount: 25}},
		b.summarize("shop", start.Add(3*time.Hour+time.Microsecond), time.Time{}).Totals)
}

func summaryOfNothing(b *book) {
	b.same("empty book", ledger.Summary{}, b.summarize("", time.Time{}, time.Time{}))
	b.requested()
	b.same("unknown client", ledger.Summary{}, b.summarize("another", time.Time{}, time.Time{}))
}

func (b *book) block(day tranid.Date, count, floor int64) tranid.Block {
	b.Helper()
	block, err := b.NextBlock(b.ctx, day, count, floor)
	if err != nil {
		b.Fatalf("next block: %v", err)
	}
	return block
}

func blocksFollow(b *book) {
	b.same("first", tranid.Block{Day: b.day, First: 0, Count: 10}, b.block(b.day, 10, 0))
	b.same("second", tranid.Block{Day: b.day, First: 10, Count: 1}, b.block(b.day, 1, 0))
	b.same("third", tranid.Block{Day: b.day, First: 11, Count: 500}, b.block(b.day, 500, 5))
}

func blocksStartAtFloor(b *book) {
	b.same("at the floor", tranid.Block{Day: b.day, First: 1000, Count: 10}, b.block(b.day, 10, 1000))
	b.same("floor passed", tranid.Block{Day: b.day, First: 1010, Count: 10}, b.block(b.day, 10, 900))
	b.same("gap left", tranid.Block{Day: b.day, First: 5000, Count: 10}, b.block(b.day, 10, 5000))
}

func blocksOfTwoDays(b *book) {
	tomorrow := tranid.DateOf(b.day.Start().Add(36 * time.Hour))
	b.block(b.day, 10, 100)
	b.same("tomorrow", tranid.Block{Day: tomorrow, First: 0, Count: 10}, b.block(tomorrow, 10, 0))
	b.same("today", tranid.Block{Day: b.day, First: 110, Count: 10}, b.block(b.day, 10, 0))
}

func blocksEnd(b *book) {
	b.same("the last, shorter", tranid.Block{Day: b.day, First: tranid.MaxNumber - 2, Count: 3},
		b.block(b.day, 10, tranid.MaxNumber-2))
	for _, floor := range []int64{0, tranid.MaxNumber} {
		_, err := b.NextBlock(b.ctx, b.day, 1, floor)
		b.fails("after the last", err, tranid.ErrDayExhausted)
	}
}

func blocksAtOnce(b *book) {
	var mu sync.Mutex
	var blocks []tranid.Block
	together(16, func(int) {
		for range 5 {
			block, err := b.NextBlock(b.ctx, b.day, 7, 3)
			if err != nil {
				b.Errorf("next block: %v", err)
			}
			mu.Lock()
			blocks = append(blocks, block)
			mu.Unlock()
		}
	})
	slices.SortFunc(blocks, func(x, y tranid.Block) int { return int(x.First - y.First) })
	for i, block := range blocks {
		b.same("block", tranid.Block{Day: b.day, First: 3 + 7*int64(i), Count: 7}, block)
	}
}

func blockArguments(b *book) {
	for what, call := range map[string]struct {
		day          tranid.Date
		count, floor int64
	}{
		"no day": {tranid.Date{}, 1, 0}, "no numbers": {b.day, 0, 0}, "fewer than none": {b.day, -1, 0}, "below 0": {b.day, 1, -1},
	} {
		if block, err := b.NextBlock(b.ctx, call.day, call.count, call.floor); err == nil {
			b.Errorf("%s: %v", what, block)
		}
	}
	b.same("first", tranid.Block{Day: b.day, First: 0, Count: 1}, b.block(b.day, 1, 0))
}

func openStoreAnswersPing(b *book) {
	if err := b.Ping(b.ctx); err != nil {
		b.Error(err)
	}
}

func doneContext(b *book) {
	requested, unknown, fresh := b.requested(), b.unknown(), b.intent()
	canceled, cancel := context.WithCancel(b.ctx)
	cancel()
	past, cancelPast := context.WithDeadline(b.ctx, time.Now().Add(-time.Second))
	defer cancelPast()
	for _, ctx := range []context.Context{canceled, past} {
		for what, err := range map[string]error{
			"create":    second(b.CreateIntent(ctx, fresh)),
			"record":    b.Record(ctx, []ledger.Transaction{b.inquiry()}, payer),
			"move":      second(b.Transition(ctx, toSuccess.of(requested.ID))),
			"append":    b.AppendEvent(ctx, unknown.ID, 0, payer, "x"),
			"adopt":     second(b.Adopt(ctx, 1, resolver)),
			"claim":     second(b.Claim(ctx, ledger.ClaimOptions{Limit: 1, Lease: time.Hour})),
			"claim one": second(b.ClaimOne(ctx, unknown.ID, time.Hour, resolver)),
			"decide":    second(b.Decide(ctx, unknown.ID, resolver, "")),
			"postpone":  b.Postpone(ctx, ledger.Postponement{ID: unknown.ID, Token: "x", By: resolver}),
			"release":   b.Release(ctx, "x"),
			"get":       second(b.Get(ctx, unknown.ID)),
			"by key":    second(b.GetByKey(ctx, unknown.Client, unknown.Key)),
			"bound":     second(b.Bound(ctx, unknown.Client, unknown.Key, ledger.Hash{1})),
			"backlog":   second(b.Backlog(ctx)),
			"events":    second(b.Events(ctx, unknown.ID)),
			"list":      second(b.List(ctx, ledger.Filter{Limit: 1})),
			"summarize": second(b.Summarize(ctx, "", time.Time{}, time.Time{})),
			"block":     second(b.NextBlock(ctx, b.day, 1, 0)),
			"ping":      b.Ping(ctx),
		} {
			b.fails(what, err, ledger.ErrUnavailable)
			if !errors.Is(err, ctx.Err()) {
				b.Errorf("%s: %v does not say %v", what, err, ctx.Err())
			}
		}
	}
	b.absent(fresh.ID)
	b.same("requested", requested, b.get(requested.ID))
	b.same("unknown", unknown, b.get(unknown.ID))
}

func second[T any](_ T, err error) error { return err }
