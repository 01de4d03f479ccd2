package ledgertest

import (
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var listCases = []conformance{
	{"list is newest first, then by ID", listIsOrdered},
	{"list in pages of any size is the list", pagesAreTheList},
	{"list in pages is not shifted by what is inserted", pagesAreStable},
	{"list of each filter has what it asks for", filters},
	{"list of one filter is not another's, used again and at once", filtersAreApart},
	{"list of no or too many rows is refused", listLimits},
	{"list of an unknown client is empty", listOfUnknownClient},
}

// listed makes 12 payments, three of them requested at each of four moments, and
// returns them in the order of List.
func (b *book) listed() []tranid.ID {
	b.Helper()
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	ids := make([]tranid.ID, 0, 12)
	for i := range 12 {
		in := b.intent()
		in.RequestedAt = start.Add(time.Duration(i/3) * time.Microsecond)
		b.create(in)
		ids = append(ids, in.ID)
	}
	slices.Reverse(ids)
	return ids
}

func (b *book) list(f ledger.Filter) ledger.Page {
	b.Helper()
	page, err := b.List(b.ctx, f)
	if err != nil {
		b.Fatalf("list: %v", err)
	}
	return page
}

func idsOf(page ledger.Page) []tranid.ID {
	ids := make([]tranid.ID, 0, len(page.Transactions))
	for _, t := range page.Transactions {
		ids = append(ids, t.ID)
	}
	return ids
}

func listIsOrdered(b *book) {
	want := b.listed()
	page := b.list(ledger.Filter{Limit: ledger.MaxPage})
	b.same("list", want, idsOf(page))
	b.same("next of the last page", (*ledger.Cursor)(nil), page.Next)
	b.same("row in a list", b.get(want[0]), page.Transactions[0])
}

func pagesAreTheList(b *book) {
	want := b.listed()
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []tranid.ID
		var after *ledger.Cursor
		pages := 0
		for range len(want) + 1 {
			page := b.list(ledger.Filter{Limit: limit, After: after})
			got = append(got, idsOf(page)...)
			pages++
			if after = page.Next; after == nil {
				break
			}
		}
		b.same("list in pages", want, got)
		if full := (len(want) + limit - 1) / limit; pages != full {
			b.Errorf("%d pages of %d, want %d", pages, limit, full)
		}
	}
}

func pagesAreStable(b *book) {
	want := b.listed()
	first := b.list(ledger.Filter{Limit: 5})
	b.requested() // newer than all
	middle := b.intent()
	middle.RequestedAt = b.get(want[1]).RequestedAt // in the page that was read
	b.create(middle)
	second := b.list(ledger.Filter{Limit: len(want), After: first.Next})
	b.same("first page", want[:5], idsOf(first))
	b.same("second page", want[5:], idsOf(second))
}

// filtered makes rows of which each filter finds some.
func (b *book) filtered() (rows map[string]tranid.ID, start time.Time) {
	b.Helper()
	start = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	rows = make(map[string]tranid.ID)
	for i, name := range []string{"requested", "success", "unknown", "reviewed", "another"} {
		in := b.intent()
		in.RequestedAt, in.CorrelationID = start.Add(time.Duration(i)*time.Hour), "corr-"+name
		if name == "another" {
			in.Client, in.AccountHash = "another", ledger.Hash{7}
		}
		b.create(in)
		rows[name] = in.ID
	}
	b.move(rows["success"], toSuccess)
	b.move(rows["unknown"], toUnknown)
	b.move(rows["reviewed"], toUsedID)
	inquiry := b.inquiry()
	inquiry.Order, inquiry.RequestedAt = "order-1", start.Add(5*time.Hour)
	if err := b.Record(b.ctx, []ledger.Transaction{inquiry}, payer); err != nil {
		b.Fatal(err)
	}
	rows["inquiry"] = inquiry.ID
	return rows, start
}

func filters(b *book) {
	rows, start := b.filtered()
	yes, no, hash := true, false, ledger.Hash{7}
	for _, c := range []struct {
		what   string
		filter ledger.Filter
		want   []string
	}{
		{"nothing", ledger.Filter{}, []string{"inquiry", "another", "reviewed", "unknown", "success", "requested"}},
		{"client", ledger.Filter{Client: "another"}, []string{"another"}},
		{"status", ledger.Filter{Statuses: []ledger.Status{ledger.StatusSuccess}}, []string{"inquiry", "success"}},
		{
			"statuses",
			ledger.Filter{Statuses: []ledger.Status{ledger.StatusUnknown, ledger.StatusRequested}},
			[]string{"another", "reviewed", "unknown", "requested"},
		},
		{"no such status", ledger.Filter{Statuses: []ledger.Status{99}}, nil},
		{"kind", ledger.Filter{Kinds: []ledger.Kind{ledger.KindBalanceInquiry, ledger.KindHistoryInquiry}}, []string{"inquiry"}},
		{"in review", ledger.Filter{NeedsReview: &yes}, []string{"reviewed"}},
		{"not in review", ledger.Filter{NeedsReview: &no}, []string{"inquiry", "another", "unknown", "success", "requested"}},
		{"order", ledger.Filter{Order: "order-1"}, []string{"inquiry"}},
		{"correlation", ledger.Filter{CorrelationID: "corr-unknown"}, []string{"unknown"}},
		{"correlation is no pattern", ledger.Filter{CorrelationID: "corr-%"}, nil},
		{"account", ledger.Filter{AccountHash: &hash}, []string{"another"}},
		{"from is inclusive", ledger.Filter{RequestedFrom: start.Add(4 * time.Hour)}, []string{"inquiry", "another"}},
		{"to is exclusive", ledger.Filter{RequestedTo: start.Add(time.Hour)}, []string{"requested"}},
		{"all at once", ledger.Filter{
			Client: "shop", Kinds: []ledger.Kind{ledger.KindPayment}, Statuses: []ledger.Status{ledger.StatusUnknown},
			NeedsReview: &no, RequestedFrom: start, RequestedTo: start.Add(24 * time.Hour), CorrelationID: "corr-unknown",
		}, []string{"unknown"}},
	} {
		c.filter.Limit = ledger.MaxPage
		var want []tranid.ID
		for _, name := range c.want {
			want = append(want, rows[name])
		}
		b.same("list by "+c.what, want, idsOf(b.list(c.filter)))
	}
}

func filtersAreApart(b *book) {
	rows, _ := b.filtered()
	together(8, func(i int) {
		for range 5 {
			f, want := ledger.Filter{Limit: 10, CorrelationID: "corr-unknown"}, rows["unknown"]
			if i%2 == 0 {
				f, want = ledger.Filter{Limit: 10, Client: "another"}, rows["another"]
			}
			page, err := b.List(b.ctx, f)
			if err != nil || len(page.Transactions) != 1 || page.Transactions[0].ID != want {
				b.Errorf("found %v, want %s, error %v", idsOf(page), want, err)
			}
		}
	})
}

func listLimits(b *book) {
	b.requested()
	for _, limit := range []int{-1, 0, ledger.MaxPage + 1} {
		if page, err := b.List(b.ctx, ledger.Filter{Limit: limit}); err == nil {
			b.Errorf("%d rows of %d", len(page.Transactions), limit)
		}
	}
}

func listOfUnknownClient(b *book) {
	b.requested()
	page := b.list(ledger.Filter{Limit: 1, Client: "nobody"})
	if len(page.Transactions) != 0 || page.Next != nil {
		b.Errorf("%d rows of nobody", len(page.Transactions))
	}
}
