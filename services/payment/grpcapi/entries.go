package grpcapi

import (
	"context"
	"errors"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledgerpb"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// ListAccountEntries implements paymentv1.AccountServiceServer.
func (a *accountServer) ListAccountEntries(ctx context.Context, req *paymentv1.ListAccountEntriesRequest) (*paymentv1.ListAccountEntriesResponse, error) {
	number, err := account.Parse(req.GetAccountNumber())
	if err != nil {
		return nil, invalid("account_number", err)
	}
	from, err := tranid.ParseDate(req.GetFromDate())
	if err != nil {
		return nil, invalid("from_date", err)
	}
	to, err := tranid.ParseDate(req.GetToDate())
	if err != nil {
		return nil, invalid("to_date", err)
	}
	if to.Start().Before(from.Start()) {
		return nil, invalid("to_date", errors.New("must not be before from_date"))
	}
	reply, err := a.service.Entries(ctx, payment.EntriesRequest{
		Client: rpcserver.ClientID(ctx), Account: number, From: from, To: to, Max: int64(req.GetMaxCount()),
		CorrelationID: telemetry.CorrelationID(ctx),
	})
	if err != nil {
		return nil, err
	}
	resp := &paymentv1.ListAccountEntriesResponse{
		Entries:     make([]*paymentv1.AccountEntry, len(reply.Entries)),
		Transaction: ledgerpb.Transaction(&reply.Transaction),
	}
	for i := range reply.Entries {
		resp.Entries[i] = entryPB(&reply.Entries[i])
	}
	return resp, nil
}

// directions are the core's words for whether money came or went. Any other is
// shown as UNSPECIFIED: words decide nothing, and a wrong direction is worse
// than none.
var directions = map[string]paymentv1.EntryDirection{
	"입금": paymentv1.EntryDirection_ENTRY_DIRECTION_IN,
	"출금": paymentv1.EntryDirection_ENTRY_DIRECTION_OUT,
}

func entryPB(r *telegram.HistoryRecord) *paymentv1.AccountEntry {
	return &paymentv1.AccountEntry{
		Sequence: int32(r.Seq), Date: r.Date.String(), Direction: directions[r.Type.Value],
		Amount: int64(r.Amount), BalanceAfter: int64(r.BalanceAfter), Summary: r.Summary.Value,
	}
}
