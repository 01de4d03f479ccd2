package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"
)

// settledWithin is how long the settlement of a day may take here.
const settledWithin = 30 * time.Second

// settle has the reconciler compare both books of the day that was played, of
// both days if it was played around midnight: they must agree about each payment.
func (t *teller) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settledWithin)
	defer cancel()
	t.started++
	t.printf("%d. settlement of the day: the core's book beside the ledger\n", t.started)
	days, made := t.days()
	var matched int64
	for _, day := range days {
		run, err := t.settleDay(ctx, day)
		if err != nil {
			return err
		}
		t.printf("   %d MATCH, %d MISMATCH, %d LEDGER_ONLY, %d CORE_ONLY, %d UNRESOLVED\n", run.GetMatchCount(), run.GetMismatchCount(),
			run.GetLedgerOnlyCount(), run.GetCoreOnlyCount(), run.GetUnresolvedCount())
		if n := run.GetMismatchCount() + run.GetLedgerOnlyCount() + run.GetCoreOnlyCount() + run.GetUnresolvedCount(); n != 0 {
			return fmt.Errorf("the settlement of %s found %d differences", day, n)
		}
		matched += run.GetMatchCount()
	}
	if matched != int64(made) {
		return fmt.Errorf("the settlement compared %d payments, not %d", matched, made)
	}
	t.printf("   both books agree about every payment, done or not\n")
	return nil
}

// days are the business days of the payments, in their order, and how many
// payments there are.
func (t *teller) days() (days []string, made int) {
	for _, st := range payments {
		id := t.made[st.name]
		if id == "" { // it made none
			continue
		}
		made++
		const first = len("GWMNU") // the date stands behind it
		day := id[first:first+4] + "-" + id[first+4:first+6] + "-" + id[first+6:first+8]
		if len(days) == 0 || days[len(days)-1] != day {
			days = append(days, day)
		}
	}
	return days, made
}

// settleDay begins a run and waits for its end.
func (t *teller) settleDay(ctx context.Context, day string) (*reconciliationv1.SettlementRun, error) {
	began, err := t.reconciliation.RunSettlement(ctx, &reconciliationv1.RunSettlementRequest{BusinessDate: day})
	if err != nil {
		return nil, fmt.Errorf("settle %s: %w", day, err)
	}
	run := began.GetRun()
	const look = 20 * time.Millisecond
	for run.GetState() == reconciliationv1.RunState_RUN_STATE_RUNNING {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return nil, fmt.Errorf("settle %s: it runs still: %w", day, ctx.Err())
		}
		now, err := t.reconciliation.GetSettlementRun(ctx, &reconciliationv1.GetSettlementRunRequest{RunId: run.GetRunId()})
		if err != nil {
			return nil, fmt.Errorf("look at the settlement of %s: %w", day, err)
		}
		run = now.GetRun()
	}
	if run.GetState() != reconciliationv1.RunState_RUN_STATE_SUCCEEDED {
		return nil, fmt.Errorf("the settlement of %s is %s: %s", day, strings.TrimPrefix(run.GetState().String(), "RUN_STATE_"), run.GetError())
	}
	return run, nil
}
