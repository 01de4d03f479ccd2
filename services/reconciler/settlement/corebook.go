package settlement

import (
	"context"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Lister asks the core's listing port for a page of a day's book, from 0.
type Lister interface {
	Book(ctx context.Context, day tranid.Date, page int64) (telegram.BookAnswer, error)
}

// CoreBook is the Book that the core lists by telegram.
func CoreBook(l Lister) Book { return coreBook{l} }

type coreBook struct{ lister Lister }

// Page implements Book.
func (b coreBook) Page(ctx context.Context, day tranid.Date, page int) ([]Record, error) {
	answer, err := b.lister.Book(ctx, day, int64(page))
	if err != nil {
		return nil, err
	}
	records := make([]Record, len(answer.Records))
	for i := range records {
		r := &answer.Records[i]
		records[i] = Record{ID: r.TranID, Account: r.Account, Amount: r.Amount, State: ledger.CoreState(r.State)}
	}
	return records, nil
}
