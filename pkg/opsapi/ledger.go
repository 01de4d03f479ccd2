// Package opsapi serves the operators' view: the ledger, read-only. Payment and
// reconciler serve it alike, so that the book can be read while either is down.
//
// Who is no operator sees his own rows, and of others not even that they exist.
package opsapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledgerpb"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

const (
	// defaultPage is the page size of a request that names none.
	defaultPage = 50
	// readTimeout bounds what one rpc asks of the ledger.
	readTimeout = 5 * time.Second
	// everyClient is the client that stands for all of them.
	everyClient ledger.ClientID = ""
)

// UnreadableHeader is the response header with how many rows are missing in an
// answer, since they hold what no row may. It is not sent where none is.
const UnreadableHeader = "gwanmun-unreadable-rows"

// tellUnreadable sends UnreadableHeader. Outside of an rpc there is nobody to tell.
func tellUnreadable(ctx context.Context, rows int64) {
	if rows > 0 {
		_ = grpc.SetHeader(ctx, metadata.Pairs(UnreadableHeader, strconv.FormatInt(rows, 10)))
	}
}

// ledgerServer is LedgerService over a Reader.
type ledgerServer struct {
	ledgerv1.UnimplementedLedgerServiceServer

	reader ledger.Reader
	key    ledger.HashKey
	now    func() time.Time
}

// NewLedgerServer serves the book that reader reads. Accounts are looked up by
// their digest under key; now is what ages are reckoned by. Its errors are
// *ledger.Refusal, for rpcerr to translate.
func NewLedgerServer(reader ledger.Reader, key ledger.HashKey, now func() time.Time) ledgerv1.LedgerServiceServer {
	return &ledgerServer{reader: reader, key: key, now: now}
}

// GetTransaction returns one transaction with its history.
func (s *ledgerServer) GetTransaction(ctx context.Context, req *ledgerv1.GetTransactionRequest) (*ledgerv1.GetTransactionResponse, error) {
	id, err := tranid.Parse(req.GetTransactionId())
	if err != nil {
		return nil, invalid("transaction_id", err)
	}
	reading, done := context.WithTimeout(ctx, readTimeout)
	defer done()
	row, err := s.reader.Get(reading, id)
	if client := whose(ctx); err == nil && client != everyClient && client != row.Client {
		err = ledger.ErrNotFound
	}
	if err != nil {
		return nil, readFailed(ctx, fmt.Errorf("read %s: %w", id, err))
	}
	history, err := s.reader.Events(reading, id)
	if err != nil {
		return nil, readFailed(ctx, fmt.Errorf("read the events of %s: %w", id, err))
	}
	events := make([]*ledgerv1.TransactionEvent, 0, len(history))
	for _, e := range history {
		events = append(events, ledgerpb.Event(e))
	}
	return &ledgerv1.GetTransactionResponse{Transaction: ledgerpb.Transaction(&row), Events: events}, nil
}

// ListTransactions returns one page, newest first, of what can be read.
func (s *ledgerServer) ListTransactions(ctx context.Context, req *ledgerv1.ListTransactionsRequest) (*ledgerv1.ListTransactionsResponse, error) {
	filter, err := s.filter(req)
	if err != nil {
		return nil, err
	}
	filter.Client = whose(ctx)
	filters := fingerprintOf(filter)
	if filter.After, err = parsePageToken(req.GetPageToken(), filters); err != nil {
		return nil, invalid("page_token", err)
	}
	filter.Limit = pageSize(req.GetPageSize())
	reading, done := context.WithTimeout(ctx, readTimeout)
	defer done()
	page, err := s.reader.List(reading, filter)
	if err != nil {
		return nil, readFailed(ctx, fmt.Errorf("list transactions: %w", err))
	}
	tellUnreadable(ctx, int64(page.Unreadable))
	rows := make([]*ledgerv1.Transaction, 0, len(page.Transactions))
	for i := range page.Transactions {
		rows = append(rows, ledgerpb.Transaction(&page.Transactions[i]))
	}
	return &ledgerv1.ListTransactionsResponse{
		Transactions:  rows,
		NextPageToken: formatPageToken(page.Next, filters),
	}, nil
}

// whose are the rows that the caller may see.
func whose(ctx context.Context) ledger.ClientID {
	if rpcserver.May(ctx, access.RoleOps) {
		return everyClient
	}
	return rpcserver.ClientID(ctx)
}

func pageSize(asked int32) int {
	if asked <= 0 {
		return defaultPage
	}
	return min(int(asked), ledger.MaxPage)
}

// SummarizeTransactions counts and adds up by status.
func (s *ledgerServer) SummarizeTransactions(ctx context.Context, req *ledgerv1.SummarizeTransactionsRequest) (*ledgerv1.SummarizeTransactionsResponse, error) {
	from, to, err := period(req.GetRequestedFrom(), req.GetRequestedTo())
	if err != nil {
		return nil, err
	}
	reading, done := context.WithTimeout(ctx, readTimeout)
	defer done()
	summary, err := s.reader.Summarize(reading, whose(ctx), from, to)
	if err != nil {
		return nil, readFailed(ctx, fmt.Errorf("summarize transactions: %w", err))
	}
	tellUnreadable(ctx, summary.Unreadable)
	resp := &ledgerv1.SummarizeTransactionsResponse{
		UnknownCount:     summary.UnknownCount,
		NeedsReviewCount: summary.NeedsReviewCount,
	}
	for _, total := range summary.Totals {
		resp.Totals = append(resp.Totals, &ledgerv1.StatusTotal{
			Status: ledgerpb.Status(total.Status), Count: total.Count, Amount: int64(total.Amount),
		})
	}
	if !summary.OldestUnknown.IsZero() {
		// The clocks of writer and reader may differ; no age is negative.
		resp.OldestUnknownAge = durationpb.New(max(0, s.now().Sub(summary.OldestUnknown)))
	}
	return resp, nil
}

// filter is what a request asks for, without its page. Values that mean the
// same are made the same: order and repetition do not matter.
func (s *ledgerServer) filter(req *ledgerv1.ListTransactionsRequest) (ledger.Filter, error) {
	f := ledger.Filter{
		NeedsReview:   req.NeedsReview,
		Order:         ledger.OrderID(req.GetOrderId()),
		CorrelationID: req.GetCorrelationId(),
	}
	var err error
	if f.RequestedFrom, f.RequestedTo, err = period(req.GetRequestedFrom(), req.GetRequestedTo()); err != nil {
		return f, err
	}
	if f.Statuses, err = parseAll(req.GetStatuses(), ledgerpb.ParseStatus); err != nil {
		return f, invalid("statuses", err)
	}
	if f.Kinds, err = parseAll(req.GetKinds(), ledgerpb.ParseKind); err != nil {
		return f, invalid("kinds", err)
	}
	if req.AccountNumber != nil {
		number, err := account.Parse(req.GetAccountNumber())
		if err != nil {
			return f, invalid("account_number", err)
		}
		hash := s.key.Account(number)
		f.AccountHash = &hash
	}
	return f, nil
}

var errMember = errors.New("must be values of the enum, and not unspecified")

// parseAll is the ledger's values, each once and in order.
func parseAll[P any, D ledger.Status | ledger.Kind](values []P, parse func(P) (D, error)) ([]D, error) {
	var all []D
	for _, v := range values {
		d, err := parse(v)
		if err != nil {
			return nil, errMember // parse names the value, which is input
		}
		all = append(all, d)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

var errOrder = errors.New("must not be after requested_to")

// period is the two bounds; a bound that is unset is the zero time.
func period(from, to *timestamppb.Timestamp) (time.Time, time.Time, error) {
	start, err := moment("requested_from", from)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	end, err := moment("requested_to", to)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	if from != nil && to != nil && start.After(end) {
		return time.Time{}, time.Time{}, invalid("requested_from", errOrder)
	}
	return start, end, nil
}

var errMoment = errors.New("must be a valid time, after the first moment of year 1")

func moment(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	at := t.AsTime()
	if t.CheckValid() != nil || at.IsZero() { // the zero time would not bound at all
		return time.Time{}, invalid(field, errMoment)
	}
	return at, nil
}

// invalid refuses a request because of one field. The error is shown, so it
// must not repeat what the field holds.
func invalid(field string, err error) *ledger.Refusal {
	return &ledger.Refusal{
		Reason: ledger.ReasonInvalidRequest,
		Fields: []ledger.FieldViolation{{Field: field, Description: err.Error()}},
	}
}

// readFailed is what a failed read comes to. ctx is the caller's.
func readFailed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // the caller's own end
	case errors.Is(err, ledger.ErrNotFound):
		return &ledger.Refusal{Reason: ledger.ReasonTransactionNotFound, Err: err}
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &ledger.Refusal{Reason: ledger.ReasonLedgerUnavailable, Err: err}
	default:
		return err
	}
}
