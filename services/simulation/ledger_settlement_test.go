package simulation

import (
	"context"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// What settlement asks of the ledger.

func (l *ledgerLink) BeginSettlement(ctx context.Context, s ledger.SettlementStart) (ledger.SettlementRun, bool, error) {
	began, err := ask(ctx, l, request{name: "BeginSettlement", saw: nothing}, func(ctx context.Context) (started, error) {
		run, begun, err := l.Store.BeginSettlement(ctx, s)
		return started{run, begun}, err
	})
	return began.run, began.begun, err
}

type started struct {
	run   ledger.SettlementRun
	begun bool
}

func (l *ledgerLink) SaveSettlement(ctx context.Context, p ledger.SettlementProgress) ([]tranid.ID, error) {
	r := request{name: "SaveSettlement", saw: nothing}
	return ask(ctx, l, r, func(ctx context.Context) ([]tranid.ID, error) { return l.Store.SaveSettlement(ctx, p) })
}

func (l *ledgerLink) EndSettlement(ctx context.Context, e ledger.SettlementEnd) error {
	r := request{name: "EndSettlement", saw: nothing}
	return l.askErr(ctx, r, func(ctx context.Context) error { return l.Store.EndSettlement(ctx, e) })
}

func (l *ledgerLink) FailLostSettlements(ctx context.Context) (int, error) {
	return ask(ctx, l, request{name: "FailLostSettlements", saw: nothing}, l.Store.FailLostSettlements)
}

func (l *ledgerLink) ListSettlements(ctx context.Context, f ledger.SettlementFilter) (ledger.SettlementPage, error) {
	r := request{name: "ListSettlements"}
	return ask(ctx, l, r, func(ctx context.Context) (ledger.SettlementPage, error) { return l.Store.ListSettlements(ctx, f) })
}

func (l *ledgerLink) DayRows(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]ledger.DayRow, error) {
	r := request{name: "DayRows " + day.String(), id: after}
	return ask(ctx, l, r, func(ctx context.Context) ([]ledger.DayRow, error) { return l.Store.DayRows(ctx, day, after, limit) })
}

func (l *ledgerLink) DayUnknown(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]tranid.ID, error) {
	r := request{name: "DayUnknown " + day.String(), id: after}
	return ask(ctx, l, r, func(ctx context.Context) ([]tranid.ID, error) { return l.Store.DayUnknown(ctx, day, after, limit) })
}

func (l *ledgerLink) UnclosedDiscrepancies(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]tranid.ID, error) {
	r := request{name: "UnclosedDiscrepancies " + day.String(), id: after}
	return ask(ctx, l, r, func(ctx context.Context) ([]tranid.ID, error) {
		return l.Store.UnclosedDiscrepancies(ctx, day, after, limit)
	})
}

func (l *ledgerLink) CountDiscrepancies(ctx context.Context) (map[ledger.DiscrepancyClass]int64, error) {
	return ask(ctx, l, request{name: "CountDiscrepancies"}, l.Store.CountDiscrepancies)
}
