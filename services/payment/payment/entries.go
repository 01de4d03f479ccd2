package payment

import (
	"context"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/corelink/listing"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Listings is the way to the core's listing port; a *listing.Client is one.
type Listings interface {
	// History asks what came into an account and went out of it. The answer
	// counts if, and only if, the result says that one came.
	History(ctx context.Context, p listing.Period, deadline time.Time) (telegram.HistoryAnswer, corelink.Result)
}

// EntriesRequest is a question for the history of an account.
type EntriesRequest struct {
	Client  ledger.ClientID
	Account account.Number
	// From and To are the first and the last day.
	From, To tranid.Date
	// Max is how many entries may come, 1 to listing.MaxEntries.
	Max           int64
	CorrelationID string
}

// EntriesReply is a history that was told.
type EntriesReply struct {
	// Entries are as the core told them.
	Entries     []telegram.HistoryRecord
	Transaction ledger.Transaction
}

// Entries asks the core what came into an account and went out of it, once.
func (s *Service) Entries(ctx context.Context, r EntriesRequest) (EntriesReply, error) {
	if err := s.begin(); err != nil {
		return EntriesReply{}, err
	}
	defer s.work.Done()
	q := inquiry{kind: ledger.KindHistoryInquiry, client: r.Client, account: r.Account, correlationID: r.CorrelationID}
	if err := s.number(ctx, &q); err != nil {
		return EntriesReply{}, err
	}
	asking, exchange := span.Exchange(ctx, corelink.TxHistory, q.id)
	m, res := s.Listings.History(asking, listing.Period{Account: r.Account, From: r.From, To: r.To, Max: r.Max}, s.deadline(ctx, &q))
	t, err := s.conclude(ctx, &q, told{ledger.Answer{Code: m.ResponseCode}, res, exchange})
	if err != nil {
		return EntriesReply{}, err
	}
	return EntriesReply{Entries: m.Records, Transaction: t}, nil
}
