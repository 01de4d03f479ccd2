package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledgerpb"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/reconciler/settlement"
)

// Settler begins settlement runs.
type Settler interface {
	Start(ctx context.Context, day tranid.Date) (ledger.SettlementRun, error)
}

// SettlementBook is what runs have stored, and where notes go.
type SettlementBook interface {
	GetSettlement(ctx context.Context, id ledger.RunID) (ledger.SettlementRun, error)
	ListSettlements(ctx context.Context, f ledger.SettlementFilter) (ledger.SettlementPage, error)
	ListDiscrepancies(ctx context.Context, f ledger.DiscrepancyFilter) (ledger.DiscrepancyPage, error)
	NoteDiscrepancy(ctx context.Context, id tranid.ID, note, by string) (ledger.Discrepancy, error)
}

const (
	// defaultPage is the page size of a request that names none.
	defaultPage = 50
	// busyRetry is when a run may have ended, for a caller who found too many.
	busyRetry = 30 * time.Second
)

// RunSettlement implements reconciliationv1.ReconciliationServiceServer.
func (s *server) RunSettlement(ctx context.Context, req *reconciliationv1.RunSettlementRequest) (*reconciliationv1.RunSettlementResponse, error) {
	day, err := tranid.ParseDate(req.GetBusinessDate())
	if err != nil {
		return nil, invalid("business_date", err)
	}
	run, err := s.settler.Start(ctx, day)
	switch {
	case errors.Is(err, settlement.ErrNotBegun), errors.Is(err, ledger.ErrDayRetired):
		return nil, invalid("business_date", err)
	case errors.Is(err, settlement.ErrBusy):
		return nil, &ledger.Refusal{Reason: ledger.ReasonRateLimited, Err: err, RetryAfter: busyRetry}
	case errors.Is(err, settlement.ErrStopped):
		return nil, &ledger.Refusal{Reason: ledger.ReasonLedgerUnavailable, Err: err}
	case err != nil:
		return nil, refusalOf(fmt.Errorf("begin a settlement of %s: %w", day, err))
	}
	return &reconciliationv1.RunSettlementResponse{Run: runMessage(&run)}, nil
}

// GetSettlementRun implements reconciliationv1.ReconciliationServiceServer.
func (s *server) GetSettlementRun(ctx context.Context, req *reconciliationv1.GetSettlementRunRequest) (*reconciliationv1.GetSettlementRunResponse, error) {
	run, err := s.settlements.GetSettlement(ctx, ledger.RunID(req.GetRunId()))
	if err != nil {
		return nil, refusalOf(err)
	}
	return &reconciliationv1.GetSettlementRunResponse{Run: runMessage(&run)}, nil
}

// ListSettlementRuns implements reconciliationv1.ReconciliationServiceServer.
func (s *server) ListSettlementRuns(ctx context.Context, req *reconciliationv1.ListSettlementRunsRequest) (*reconciliationv1.ListSettlementRunsResponse, error) {
	filter := ledger.SettlementFilter{Limit: pageSize(req.GetPageSize())}
	if req.BusinessDate != nil {
		var err error
		if filter.Day, err = tranid.ParseDate(req.GetBusinessDate()); err != nil {
			return nil, invalid("business_date", err)
		}
	}
	filters := "runs " + req.GetBusinessDate()
	after, err := parsePageToken(req.GetPageToken(), filters)
	if err != nil {
		return nil, invalid("page_token", err)
	}
	if after != nil {
		filter.After = &ledger.SettlementCursor{StartedAt: after.at, ID: ledger.RunID(after.id)}
	}
	page, err := s.settlements.ListSettlements(ctx, filter)
	if err != nil {
		return nil, refusalOf(err)
	}
	res := &reconciliationv1.ListSettlementRunsResponse{Runs: make([]*reconciliationv1.SettlementRun, len(page.Runs))}
	for i := range page.Runs {
		res.Runs[i] = runMessage(&page.Runs[i])
	}
	if page.Next != nil {
		res.NextPageToken = place{page.Next.StartedAt, string(page.Next.ID)}.token(filters)
	}
	return res, nil
}

// ListDiscrepancies implements reconciliationv1.ReconciliationServiceServer.
func (s *server) ListDiscrepancies(ctx context.Context, req *reconciliationv1.ListDiscrepanciesRequest) (*reconciliationv1.ListDiscrepanciesResponse, error) {
	filter := ledger.DiscrepancyFilter{
		Run: ledger.RunID(req.GetRunId()), State: discrepancyStates[req.GetState()], Limit: pageSize(req.GetPageSize()),
	}
	filters := fmt.Sprintf("discrepancies %d %s", req.GetState(), req.GetRunId())
	after, err := parsePageToken(req.GetPageToken(), filters)
	if err != nil {
		return nil, invalid("page_token", err)
	}
	if after != nil {
		filter.After = &ledger.DiscrepancyCursor{FoundAt: after.at, ID: tranid.ID(after.id)}
	}
	page, err := s.settlements.ListDiscrepancies(ctx, filter)
	if err != nil {
		return nil, refusalOf(err)
	}
	res := &reconciliationv1.ListDiscrepanciesResponse{
		Discrepancies: make([]*reconciliationv1.Discrepancy, len(page.Discrepancies)),
	}
	for i := range page.Discrepancies {
		res.Discrepancies[i] = discrepancyMessage(&page.Discrepancies[i])
	}
	if page.Next != nil {
		res.NextPageToken = place{page.Next.FoundAt, string(page.Next.ID)}.token(filters)
	}
	return res, nil
}

// NoteDiscrepancy implements reconciliationv1.ReconciliationServiceServer.
func (s *server) NoteDiscrepancy(ctx context.Context, req *reconciliationv1.NoteDiscrepancyRequest) (*reconciliationv1.NoteDiscrepancyResponse, error) {
	by := "operator:" + string(rpcserver.ClientID(ctx))
	d, err := s.settlements.NoteDiscrepancy(ctx, tranid.ID(req.GetDiscrepancyId()), frame.MaskDigits(req.GetNote()), by)
	if err != nil {
		return nil, refusalOf(err)
	}
	return &reconciliationv1.NoteDiscrepancyResponse{Discrepancy: discrepancyMessage(&d)}, nil
}

func invalid(field string, err error) error {
	return &ledger.Refusal{Reason: ledger.ReasonInvalidRequest, Err: err, Fields: []ledger.FieldViolation{
		{Field: field, Description: err.Error()},
	}}
}

func pageSize(asked int32) int {
	if asked <= 0 {
		return defaultPage
	}
	return min(int(asked), ledger.MaxPage)
}

// The enums of settlement. What one side does not know is unset on the other.
var (
	runStates = map[ledger.RunState]reconciliationv1.RunState{
		ledger.RunRunning:   reconciliationv1.RunState_RUN_STATE_RUNNING,
		ledger.RunSucceeded: reconciliationv1.RunState_RUN_STATE_SUCCEEDED,
		ledger.RunFailed:    reconciliationv1.RunState_RUN_STATE_FAILED,
	}
	classes = map[ledger.DiscrepancyClass]reconciliationv1.DiscrepancyClass{
		ledger.ClassMismatch:   reconciliationv1.DiscrepancyClass_DISCREPANCY_CLASS_MISMATCH,
		ledger.ClassLedgerOnly: reconciliationv1.DiscrepancyClass_DISCREPANCY_CLASS_LEDGER_ONLY,
		ledger.ClassCoreOnly:   reconciliationv1.DiscrepancyClass_DISCREPANCY_CLASS_CORE_ONLY,
		ledger.ClassUnresolved: reconciliationv1.DiscrepancyClass_DISCREPANCY_CLASS_UNRESOLVED,
	}
	discrepancyStates = map[reconciliationv1.DiscrepancyState]ledger.DiscrepancyState{
		reconciliationv1.DiscrepancyState_DISCREPANCY_STATE_OPEN:   ledger.DiscrepancyOpen,
		reconciliationv1.DiscrepancyState_DISCREPANCY_STATE_NOTED:  ledger.DiscrepancyNoted,
		reconciliationv1.DiscrepancyState_DISCREPANCY_STATE_CLOSED: ledger.DiscrepancyClosed,
	}
)

func runMessage(r *ledger.SettlementRun) *reconciliationv1.SettlementRun {
	c := &r.Counts
	return &reconciliationv1.SettlementRun{
		RunId: string(r.ID), BusinessDate: r.Day.String(), State: runStates[r.State], Scheduled: r.Scheduled, Error: r.Error,
		MatchCount: c.Match, MismatchCount: c.Mismatch, LedgerOnlyCount: c.LedgerOnly, CoreOnlyCount: c.CoreOnly,
		UnresolvedCount: c.Unresolved, UnreadableCount: c.Unreadable, RecordsRead: c.Records,
		StartedAt: moment(r.StartedAt), FinishedAt: moment(r.FinishedAt),
	}
}

func discrepancyMessage(d *ledger.Discrepancy) *reconciliationv1.Discrepancy {
	m := &reconciliationv1.Discrepancy{
		DiscrepancyId: string(d.ID), RunId: string(d.Run), TransactionId: string(d.ID), Class: classes[d.Class],
		LedgerStatus: ledgerpb.Status(d.LedgerStatus), LedgerAmount: int64(d.LedgerAmount),
		CoreState: string(d.CoreState), CoreAmount: int64(d.CoreAmount),
		Note: d.Note, NotedBy: d.NotedBy, FoundAt: moment(d.FoundAt), ClosedAt: moment(d.ClosedAt),
	}
	for message, state := range discrepancyStates {
		if state == d.State {
			m.State = message
		}
	}
	return m
}

// moment is a time; unset when it did not happen.
func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
