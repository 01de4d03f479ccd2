package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
)

// check prints the ledger and compares it, row by row, with what must be there,
// and each row with the core's journal.
func (t *teller) check(ctx context.Context) error {
	rows, err := t.rows(ctx)
	if err != nil {
		return err
	}
	t.print(rows)
	byID := map[string]*ledgerv1.Transaction{}
	for _, row := range rows {
		byID[row.GetTransactionId()] = row
	}
	if len(byID) != len(t.made) {
		return fmt.Errorf("the ledger has %d rows, not %d", len(byID), len(t.made))
	}
	var errs []error
	for _, st := range payments {
		if st.status != 0 {
			errs = append(errs, st.verify(byID[t.made[st.name]]), t.referee(ctx, st))
		}
	}
	for _, q := range append([]inquiry{healthy, unreachable, again}, shut...) {
		st := step{name: q.name, status: q.status, evidence: q.evidence, code: q.code}
		errs = append(errs, st.verify(byID[t.made[q.name]]), t.referee(ctx, st))
	}
	return errors.Join(errs...)
}

// rowsWithin is how long a row that is written behind its answer may take.
const rowsWithin = 5 * time.Second

// rows is the ledger, when it has a row for each call that made one.
func (t *teller) rows(ctx context.Context) ([]*ledgerv1.Transaction, error) {
	const look = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, rowsWithin)
	defer cancel()
	for {
		page, err := t.ledger.ListTransactions(ctx, &ledgerv1.ListTransactionsRequest{PageSize: 500})
		if err != nil {
			return nil, fmt.Errorf("list the ledger: %w", err)
		}
		if len(page.GetTransactions()) >= len(t.made) {
			return page.GetTransactions(), nil
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return page.GetTransactions(), nil
		}
	}
}

// verify compares a row with what the story asks of it.
func (st step) verify(row *ledgerv1.Transaction) error {
	switch {
	case row == nil:
		return fmt.Errorf("%s: not in the ledger", st.name)
	case row.GetStatus() != st.status:
		return fmt.Errorf("%s: status is %s, not %s", st.name, row.GetStatus(), st.status)
	case row.GetEvidence() != st.evidence:
		return fmt.Errorf("%s: evidence is %s, not %s", st.name, row.GetEvidence(), st.evidence)
	case row.GetResolutionMethod() != st.method:
		return fmt.Errorf("%s: method is %s, not %s", st.name, row.GetResolutionMethod(), st.method)
	case row.GetResponseCode() != st.code:
		return fmt.Errorf("%s: response code is %q, not %q", st.name, row.GetResponseCode(), st.code)
	case row.GetAmount() != st.amount:
		return fmt.Errorf("%s: amount is %d, not %d", st.name, row.GetAmount(), st.amount)
	case row.GetCorrelationId() != st.name:
		return fmt.Errorf("%s: correlation ID is %q", st.name, row.GetCorrelationId())
	}
	return nil
}

// referee compares a row with what the core did.
func (t *teller) referee(ctx context.Context, st step) error {
	journal, err := t.journal.ListJournal(ctx, &simulatorv1.ListJournalRequest{TransactionId: t.made[st.name], PageSize: 500},
		grpc.WaitForReady(true)) // it was away for a while
	if err != nil {
		return fmt.Errorf("read the core's journal: %w", err)
	}
	count := map[simulatorv1.JournalEffect]int{}
	for _, e := range journal.GetEntries() {
		count[e.GetEffect()]++
	}
	debits, cancels, fences := count[simulatorv1.JournalEffect_JOURNAL_EFFECT_DEBIT],
		count[simulatorv1.JournalEffect_JOURNAL_EFFECT_CANCEL], count[simulatorv1.JournalEffect_JOURNAL_EFFECT_FENCE]
	if debits != st.debits || cancels != st.cancels || fences != st.fences {
		return fmt.Errorf("%s: the core has %d debits, %d cancels and %d fences, not %d, %d and %d",
			st.name, debits, cancels, fences, st.debits, st.cancels, st.fences)
	}
	return nil
}

// print shows the ledger as a table, oldest first.
func (t *teller) print(rows []*ledgerv1.Transaction) {
	t.printf("\n")
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { _, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) }
	line("TRANSACTION", "KIND", "AMOUNT", "STATUS", "EVIDENCE", "METHOD", "ELAPSED", "ACCOUNT", "CORRELATION")
	for i := len(rows) - 1; i >= 0; i-- {
		r := rows[i]
		line(r.GetTransactionId(), strings.TrimPrefix(r.GetKind().String(), "TRANSACTION_KIND_"), grouped(r.GetAmount()),
			statusName(r.GetStatus()), evidenceName(r.GetEvidence()), methodName(r.GetResolutionMethod()),
			short(r.GetElapsed().AsDuration()), r.GetAccountMasked(), r.GetCorrelationId())
	}
	_ = table.Flush()
}

func statusName(s ledgerv1.TransactionStatus) string {
	return strings.TrimPrefix(s.String(), "TRANSACTION_STATUS_")
}

func evidenceName(e ledgerv1.Evidence) string { return strings.TrimPrefix(e.String(), "EVIDENCE_") }

func methodName(m ledgerv1.ResolutionMethod) string {
	if m == 0 {
		return "-"
	}
	return strings.TrimPrefix(m.String(), "RESOLUTION_METHOD_")
}

// word is what a caller is told, in one word.
func word(r ledgerv1.ErrorReason) string {
	if r == 0 {
		return "OK"
	}
	return strings.TrimPrefix(r.String(), "ERROR_REASON_")
}

// short is a duration as a reader wants it.
func short(d time.Duration) string {
	if d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// grouped is a number with commas.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
