package main

const (
	changeFile  = "pkg/ledger/change.go"
	memWriter   = "pkg/ledger/memstore/writer.go"
	memQueue    = "pkg/ledger/memstore/queue.go"
	gormWriter  = "pkg/ledger/gormstore/writer.go"
	gormQueue   = "pkg/ledger/gormstore/queue.go"
	gormErrands = "pkg/ledger/gormstore/errands.go"
	memErrand   = "pkg/ledger/memstore/errand.go"
	gormBatch   = "pkg/ledger/gormstore/intents.go"
	gormMoves   = "pkg/ledger/gormstore/outcomes.go"
	gormPlain   = "pkg/ledger/gormstore/single.go"

	gormDecisions = "pkg/ledger/gormstore/decisions.go"

	conformance = "Conformance_SQLite"
)

// ledgerMutations take away what the book promises, in the table of moves and in
// each store.
var ledgerMutations = []mutation{
	{
		name: "outcome compare-and-set off", guard: "outcome compare-and-set",
		edits: swap(changeFile, "return t.Status == from && r.fits(t) && !t.OperatorOnly()", "return r.fits(t) && !t.OperatorOnly()"),
		tests: append(some(ledger, "Apply"), some(memstore, "Conformance")...),
	},
	{
		name: "decision does not block SUCCESS", guard: "decision blocks SUCCESS",
		edits: swap("pkg/ledger/invariant.go", "case r.Undecided() && t.Decision != 0,\n", "case r.Undecided() && t.Decision != 0 && t.Status != StatusUnknown && t.Status != StatusSuccess,\n"),
		tests: append(some(ledger, ""), some(memstore, "Conformance")...),
	},
	{
		name: "FENCED without a decision", guard: "decision before a net cancel",
		edits: swap("pkg/ledger/invariant.go", "		r.Decided() && t.Decision != DecisionCancel,\n", ""),
		tests: append(some(ledger, ""), some(memstore, "Conformance")...),
	},
	{
		name: "SUCCESS moved to FAILED", guard: "final states never change",
		edits: swap(changeFile, "	{StatusRequested, StatusUnknown, 0, 0}:                {decision: undecided},\n",
			"	{StatusRequested, StatusUnknown, 0, 0}:                {decision: undecided},\n	{StatusSuccess, StatusFailed, EvidenceAnswered, 0}:    {decision: undecided},\n"),
		tests: some(ledger, "Apply"),
	},
	{
		name: "NOT_SENT rule of the re-bind widened to any FAILED", guard: "the key lives until its transaction is final: only what never left runs again",
		edits: swap("pkg/ledger/row.go", "return t.Status == StatusFailed && t.Evidence == EvidenceNotSent", "return t.Status == StatusFailed"),
		tests: some(memstore, "Conformance"),
	},
	{
		name: "bound key not looked at", guard: "at most one execution for one key",
		edits: swap(memWriter, "if bound, ok := s.keys[key]; ok {", "if bound, ok := s.keys[key]; ok && bound.id == in.ID {"),
		tests: some(memstore, "Conformance"),
	},
	{
		name: "UNKNOWN lets its key go", guard: "the key lives until its transaction is final",
		edits: swap("pkg/ledger/row.go", "return t.Status == StatusFailed && t.Evidence == EvidenceNotSent",
			"return t.Status == StatusFailed && t.Evidence == EvidenceNotSent || t.Status == StatusUnknown"),
		tests: some(memstore, "Conformance"),
	},
	{
		name: "decision compare-and-set off, memory", guard: "decision compare-and-set",
		edits: swap(memQueue, "	case !r.Decidable():\n		return ledger.Transaction{}, r.lost()\n", ""),
		tests: some(memstore, "Conformance"),
	},
	{
		name: "decision compare-and-set off, SQL", guard: "decision compare-and-set",
		edits: []edit{
			{gormDecisions, "		case !t.Decidable():\n			found[d.id].err = &ledger.LostError{Current: t}\n", ""},
			{gormDecisions, "		\" AND status IS NOT DISTINCT FROM 'UNKNOWN' AND decision = ''\",", "		\"\","},
		},
		tests: some(gormstore, conformance),
	},
	{
		name: "outcome compare-and-set off, SQL", guard: "outcome compare-and-set",
		edits: []edit{
			{changeFile, "return t.Status == from && r.fits(t) && !t.OperatorOnly()", "return r.fits(t) && !t.OperatorOnly()"},
			{gormWriter, "Where(whileStatus+\" AND decision = ?\",\n			r.BusinessDate, r.TransactionID, before.Status.String(), before.Decision.String()).", "Where(byID,\n			r.BusinessDate, r.TransactionID)."},
		},
		tests: some(gormstore, conformance),
	},
	{
		name: "key bound again without compare-and-set, memory", guard: "key re-bind compare-and-set",
		edits: swap(memWriter, "	if err := s.put(t, ledger.NewEvent(0, t.Status, 0, now, in.By, \"\")); err != nil {\n		return ledger.Admission{}, err\n	}\n",
			"	s.mu.Unlock()\n	time.Sleep(time.Millisecond)\n	s.mu.Lock()\n	if err := s.put(t, ledger.NewEvent(0, t.Status, 0, now, in.By, \"\")); err != nil {\n		return ledger.Admission{}, err\n	}\n"),
		tests: some(memstore, "Conformance"),
	},
	{
		name: "key bound again without compare-and-set, SQL", guard: "key re-bind compare-and-set",
		edits: []edit{
			{gormWriter, "WHERE client_id = ? AND idempotency_key = ? AND transaction_id = ? RETURNING created_at", "WHERE client_id = ? AND idempotency_key = ? RETURNING created_at"},
			{gormWriter, "string(in.Client), string(in.Key), string(old)).Scan", "string(in.Client), string(in.Key)).Scan"},
		},
		tests:    some(gormstore, "Conformance_PostgreSQL|Instances"),
		postgres: true, // SQLite writes one after the other anyway
	},
	{
		name: "order guard off, memory", guard: "an order is paid once",
		edits: swap(memWriter, "if holder, taken := s.orders[order]; taken {", "if holder, taken := s.orders[order]; taken && in.Order == \"\" {"),
		tests: some(memstore, "Conformance"),
	},
	{
		name: "order guard off, SQL", guard: "an order is paid once",
		edits: swap("pkg/ledger/gormstore/order.go", "result.RowsAffected == 1 {", "result.RowsAffected <= 1 {"),
		tests: some(gormstore, conformance),
	},
	{
		name: "order guard off in a batch", guard: "an order is paid once",
		edits: swap(gormBatch, "return in.Order != \"\" && !guarded[in.ID] }", "return in.Order == \"\" && guarded[in.ID] }"),
		tests: some(gormstore, "Batch_EqualKeys"),
	},
	{
		name: "order let go with UNKNOWN", guard: "an order is paid once: in doubt it is held",
		edits: swap("pkg/ledger/row.go", "return t.Status == StatusFailed || t.Status == StatusCanceled", "return t.Status != StatusSuccess"),
		tests: some(memstore, "Conformance"),
	},
	{
		name: "key lives no longer than its life", guard: "the key lives until its transaction is final",
		edits: swap("pkg/ledger/row.go", "t.NeverSent() || t.Status.Final() && !now.Before(expires)", "t.NeverSent() || !now.Before(expires)"),
		tests: some(memstore, "Conformance"),
	},
	{
		name: "outcome compare-and-set off in a batch", guard: "outcome compare-and-set",
		edits: swap(gormMoves, "\n	AND status IS NOT DISTINCT FROM was_status AND decision = was_decision", ""),
		tests: some(gormstore, "Batch_MoveOfARowThatChanged"),
	},
	{
		name: "bad outcome takes its batch with it", guard: "a bad row harms no other",
		edits: swap(gormMoves, "len(batch) == 1 && s.isVerdict(err):", "s.isVerdict(err):"),
		tests: some(gormstore, "Batch_BadRow"),
	},
	{
		name: "bad row takes what is recorded with it", guard: "a bad row harms no other",
		edits: swap(gormWriter, "if err == nil || !s.isVerdict(err) {", "if err == nil || err != nil {"),
		tests: some(gormstore, conformance),
	},
	{
		name: "equal keys of a batch are one payment", guard: "same key, other body: conflict",
		edits: swap(gormBatch, "case lead.Fingerprint != in.Fingerprint:", "case false:"),
		tests: some(gormstore, "Batch_EqualKeys"),
	},
	{
		name: "a young book is read from end to end", guard: "a plan that is kept does for any book",
		edits: swap("pkg/ledger/gormstore/dialect.go", "bitmapSetting: off, scanSetting: off,", "bitmapSetting: off, scanSetting: \"on\","),
		tests: some(gormstore, "Plans_Made"), postgres: true,
	},
	{
		name: "outcome compare-and-set off in the plain statement", guard: "outcome compare-and-set",
		edits: swap(gormPlain, "\n		AND status IS NOT DISTINCT FROM '` + ledger.StatusRequested.String() + `'", ""),
		tests: some(gormstore, "Plain_OutcomeOfARow"), postgres: true,
	},
	{
		name: "a row is stored whose order another has", guard: "an order is paid once",
		edits: swap(gormPlain, `status = "CASE WHEN order_id = '' OR guarded_id IS NOT NULL THEN " + status + " END"`, ""),
		tests: some(gormstore, "Batch_EqualKeys|Conformance_PostgreSQL|Plain_AnOrder"), postgres: true,
	},
	{
		name: "intents of a batch are taken to be alike", guard: "a row is stored as it is",
		edits: swap(gormPlain, "|| !areAlike(first) {", "{"),
		tests: some(gormstore, "Plain_RowsThatAreNotAlike"), postgres: true,
	},
	{
		name: "outcomes of a batch are taken to be alike", guard: "a row is stored as it is",
		edits: swap(gormPlain, "len(outcomes) > 0 && !o.isLike(outcomes[0]) ||", ""),
		tests: some(gormstore, "Plain_RowsThatAreNotAlike"), postgres: true,
	},
	{
		name: "a statement outlives its context", guard: "every wait ends",
		edits: swap("pkg/ledger/gormstore/leash.go", "		_ = line.SetDeadline(time.Unix(1, 0)) // of what is closed there is nothing to cut\n", ""),
		tests: some(gormstore, "Leash_Cuts"), postgres: true,
	},
	{
		name: "an outcome reads the row of its intent", guard: "a payment is two statements",
		edits: swap(gormPlain, "		s.requested.remember(t)\n", ""),
		tests: some(gormstore, "Plain_"), postgres: true,
	},
	{
		name: "who comes alone writes beside a batch", guard: "one writer of each kind",
		edits: swap(
			"pkg/ledger/gormstore/line.go", "	case <-l.turn:\n	default:\n		return false\n	}\n	select {", "	default:\n	}\n	select {",
		),
		tests: some(gormstore, "Line_"),
	},
	{
		name: "a batch beside another for whoever waits", guard: "batches grow while one is written",
		edits: swap("pkg/ledger/gormstore/line.go", "for len(l.waiting) >= crowd {", "for len(l.waiting) > 0 {"),
		tests: some(gormstore, "Line_"),
	},
	{
		name: "nobody wakes the second writer", guard: "a crowd is written beside a batch",
		edits: swap("pkg/ledger/gormstore/line.go", "		l.callSecond()\n", ""),
		tests: some(gormstore, "Line_"),
	},
	{
		name: "the second writer goes on after the close", guard: "close waits, and refuses the rest",
		edits: swap(
			"pkg/ledger/gormstore/line.go",
			"			select {\n			case <-l.closing:\n				return\n			default:\n			}\n			select {\n			case first := <-l.waiting:\n				l.settle(first)",
			"			select {\n			case first := <-l.waiting:\n				l.settle(first)",
		),
		tests: some(gormstore, "Line_"),
	},
	{
		name: "two writers of intents in SQLite", guard: "SQLite has one writer of a kind",
		edits: swap("pkg/ledger/gormstore/gormstore.go", "newLineOf(d.writers, rows.WithLabelValues(\"intent\")", "newLineOf(2, rows.WithLabelValues(\"intent\")"),
		tests: some(gormstore, "Batch_WhatWaits"),
	},
	{
		name: "a list forgets what is under way", guard: "lists have every row",
		edits: swap("pkg/ledger/gormstore/listing.go", "return []string{answered, underWay}", "return []string{answered}"),
		tests: some(gormstore, "Conformance_PostgreSQL"), postgres: true,
	},
	{
		name: "a migration that was cut short keeps what it left", guard: "an index that is not valid is made anew",
		edits: swap("pkg/ledger/gormstore/migrations/postgres/00008_lists_without_what_is_under_way.sql",
			"DROP INDEX CONCURRENTLY IF EXISTS transactions_by_time;\n", ""),
		tests: some(gormstore, "Migrations_"), postgres: true,
	},
	{
		name: "a migration without the lock of the book", guard: "one process migrates at a time",
		edits: swap("pkg/ledger/gormstore/migrate.go", "\"SELECT pg_try_advisory_lock($1)\"", "\"SELECT $1::bigint > 0\""),
		tests: some(gormstore, "Migrations_Session"), postgres: true,
	},
	{
		name: "a database of any encoding taken", guard: "what the core did can be stored",
		edits: swap("pkg/ledger/gormstore/start.go", "	if encoding != utf8 {\n", "	if encoding == \"\" {\n"),
		tests: some(gormstore, "Encoding_"), postgres: true,
	},
	{
		name: "sessions in whatever encoding the database has set for them", guard: "what the core did can be stored",
		edits: swap("pkg/ledger/gormstore/dialect.go", "	speak(config, encodingSetting, utf8) //", "	_ = encodingSetting //"),
		tests: some(gormstore, "Encoding_"), postgres: true,
	},
	{
		name: "sessions that write dates as the database has set for them", guard: "what a session says is read as it was meant",
		edits: swap("pkg/ledger/gormstore/dialect.go", "	speak(config, dateSetting, isoDates)\n", ""),
		tests: some(gormstore, "Conformance_PostgreSQL"), postgres: true,
	},
	{
		name: "a migration within the limits of its role", guard: "an index of a large book is made in the end",
		edits: swap("pkg/ledger/gormstore/migrate.go", "`SELECT set_config(name, '0', false)", "`SELECT set_config(name, reset_val, false)"),
		tests: some(gormstore, "Migrations_NoLimit"), postgres: true,
	},
	{
		name: "a migration that goes on at the server", guard: "who is stopped keeps nobody out",
		edits: swap("pkg/ledger/gormstore/migrate.go", "			lock.letGo()\n", "			_ = lock.letGo\n"),
		tests: some(gormstore, "Migrations_StartThatIs"), postgres: true,
	},
	{
		name: "a pool that asks for what it is refused", guard: "a payment waits for a connection that there is",
		edits: swap("pkg/ledger/gormstore/allowance.go", "	return hasClass(err, tooMany) && ", "	return hasClass(err, tooMany) && false && "),
		tests: some(gormstore, "Allowance_"), postgres: true,
	},
	{
		name: "an order that is taken fails its batch", guard: "a refusal is no error of the database",
		edits: swap(gormPlain, "		free = ofFreeOrders\n", ""),
		tests: some(gormstore, "Plain_AnOrder"), postgres: true,
	},
}
