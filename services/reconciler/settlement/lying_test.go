package settlement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// lies are books that cannot be: each is an error of the run and no discrepancy.
// The book below has three full pages and a fourth of 50.
var lies = map[string]struct {
	spoil func(reads, page int, records []Record) ([]Record, error)
	fault string
}{
	"not in order": {func(_, page int, records []Record) ([]Record, error) {
		if page == 1 {
			records[3], records[4] = records[4], records[3]
		}
		return records, nil
	}, "page 1 of the core's book is not in order"},
	"a record twice": {func(_, page int, records []Record) ([]Record, error) {
		if page == 1 {
			records[4] = records[3]
		}
		return records, nil
	}, "page 1 of the core's book has a record twice"},
	"another day": {func(_, page int, records []Record) ([]Record, error) {
		if page == 2 {
			records[0].ID = "GWMNU19991231000000001"
		}
		return records, nil
	}, "page 2 of the core's book has a record of another day"},
	"no ID": {func(_, page int, records []Record) ([]Record, error) {
		if page == 2 {
			records[0].ID = "x"
		}
		return records, nil
	}, "page 2 of the core's book has a record of another day"},
	"too many": {func(_, page int, records []Record) ([]Record, error) {
		if page == 0 {
			records = append(records, Record{ID: records[PageSize-1].ID + "0"})
		}
		return records, nil
	}, "page 0 of the core's book has more records than a page may have"},
	"a state that is none": {func(_, page int, records []Record) ([]Record, error) {
		if page == 0 {
			records[9].State = "01"
		}
		return records, nil
	}, "page 0 of the core's book has a record in an unknown state"},
	"a negative amount": {func(_, page int, records []Record) ([]Record, error) {
		if page == 0 {
			records[9].Amount = -1
		}
		return records, nil
	}, "page 0 of the core's book has a record without an amount or an account"},
	"no account": {func(_, page int, records []Record) ([]Record, error) {
		if page == 0 {
			records[9].Account = account.Number{}
		}
		return records, nil
	}, "page 0 of the core's book has a record without an amount or an account"},
	"pages overlap": {func(_, page int, records []Record) ([]Record, error) {
		if page == 1 { // it has shifted, and the page before has not
			records = append([]Record{lieRecord(PageSize - 1)}, records[:PageSize-1]...)
		}
		return records, nil
	}, "page 1 of the core's book overlaps the one before it"},
	"the first page over and over": {func(_, _ int, _ []Record) ([]Record, error) {
		return lieRecords(0, PageSize), nil
	}, "page 1 of the core's book overlaps the one before it"},
	"cut short in the middle": {func(_, page int, records []Record) ([]Record, error) {
		if page == 1 {
			records = records[:100]
		}
		return records, nil
	}, "page 1 of the core's book has lost records"},
	"cut short before the last page": {func(_, page int, records []Record) ([]Record, error) {
		if page == 2 {
			records = records[:100]
		}
		return records, nil
	}, "page 2 of the core's book is cut short: there are records behind it"},
	"empty in the middle": {func(_, page int, records []Record) ([]Record, error) {
		if page == 2 {
			return nil, nil
		}
		return records, nil
	}, "page 2 of the core's book is cut short: there are records behind it"},
	"contradicts itself": {func(_, page int, records []Record) ([]Record, error) {
		if page == 2 {
			return nil, fmt.Errorf("parse book answer: %w", corelink.ErrGarbage)
		}
		return records, nil
	}, "page 2 of the core's book contradicts itself, or what was asked"},
	"cannot be had": {func(_, page int, records []Record) ([]Record, error) {
		if page == 2 {
			return nil, fmt.Errorf("10.1.2.3: %w", corelink.ErrConnect)
		}
		return records, nil
	}, "the core's book could not be read"},
	"panics": {func(_, page int, records []Record) ([]Record, error) {
		if page == 2 {
			panic("canary")
		}
		return records, nil
	}, "a fault of ours: the log has it"},
}

func lieRecord(n int64) Record {
	return Record{ID: tranid.New(tranid.DateOf(time.Now()), n), Account: alice, Amount: 1000, State: ledger.CoreDone}
}

func lieRecords(from, to int64) []Record {
	var records []Record
	for n := from; n < to; n++ {
		records = append(records, lieRecord(n))
	}
	return records
}

func TestSettlement_BookThatCannotBeIsAnErrorAndNoDiscrepancy(t *testing.T) {
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBooks(nil)
				defer running(t, b.Service)()
				for n := range int64(3*PageSize + 50) {
					b.pay(t, n, "SUCCESS")
					b.lists(n, ledger.CoreDone)
				}
				b.core.spoil = lie.spoil
				run := b.settled(t)
				if run.State != ledger.RunFailed || run.Error != lie.fault {
					t.Errorf("the run is %s: %q, want %q", run.State, run.Error, lie.fault)
				}
				if found := b.found(t); len(found) != 0 {
					t.Errorf("found %v", found)
				}
				b.core.spoil = nil
				if run := b.succeeds(t); run.Counts.Match != 3*PageSize+50 {
					t.Errorf("afterwards counted %+v", run.Counts)
				}
			})
		})
	}
}

// A book that denies at the second look what it said at the first.
func TestSettlement_BookThatTakesBackARecordIsAnError(t *testing.T) {
	for name, change := range map[string]func(r *Record) (keep bool){
		"gone":            func(*Record) bool { return false },
		"another amount":  func(r *Record) bool { r.Amount = 7; return true },
		"another account": func(r *Record) bool { r.Account = bob; return true },
		"done again":      func(r *Record) bool { r.State = ledger.CoreDone; return true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBooks(nil)
				defer running(t, b.Service)()
				b.pay(t, 1, "SUCCESS")
				b.core.put(Record{ID: b.id(1), Account: alice, Amount: 1, State: ledger.CoreCanceled})
				b.core.spoil = func(reads, _ int, records []Record) ([]Record, error) {
					if reads >= 2 && len(records) == 1 && !change(&records[0]) {
						records = nil
					}
					return records, nil
				}
				run := b.settled(t)
				if run.State != ledger.RunFailed || !strings.Contains(run.Error, "taken back") || len(b.found(t)) != 0 {
					t.Errorf("the run is %s: %q, found %v", run.State, run.Error, b.found(t))
				}
			})
		})
	}
}

// A core that answers badly for a moment ends no run.
func TestSettlement_PageIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		for n := range int64(300) {
			b.pay(t, n, "SUCCESS")
			b.lists(n, ledger.CoreDone)
		}
		b.core.spoil = func(reads, _ int, records []Record) ([]Record, error) {
			if reads%3 != 2 {
				return nil, errTest
			}
			return slices.Clone(records), nil
		}
		if run := b.succeeds(t); run.Counts.Match != 300 {
			t.Errorf("counted %+v", run.Counts)
		}
	})
}

func TestPages_OneMoreThanADayCanHaveIsAnError(t *testing.T) {
	p := pages{book: &paperBook{}, patience: bookPatience}
	_, err := p.read(t.Context(), maxPages)
	if err == nil || !strings.Contains(err.Error(), "one more than a day can have") {
		t.Errorf("error %v", err)
	}
}
