package main

const (
	attemptFile = "services/reconciler/resolve/attempt.go"
	planFile    = "services/reconciler/resolve/plan.go"
	laneFile    = "services/reconciler/resolve/lane.go"
)

// resolveMutations take away what the reconciler needs before it calls anything
// final.
var resolveMutations = []mutation{
	{
		name: "decision after the 0420", guard: "decision before the net cancel leaves",
		edits: []edit{
			{attemptFile, "	row, err := a.r.store.Decide(deciding, a.row.ID, a.by, v.why)\n", "	said, step, err := a.r.netCancel(ctx, a.turn, a.row.ID)\n	if err != nil {\n		return err\n	}\n	row, err := a.r.store.Decide(deciding, a.row.ID, a.by, v.why)\n"},
			{attemptFile, "	said, step, err := a.r.netCancel(ctx, a.turn, row.ID)\n	if err != nil {\n		return err\n	}\n	a.cancel = said\n", "	a.cancel = said\n"},
		},
		tests: some(resolve, ""),
	},
	{
		name: "FAILED on 02 alone", guard: "not found alone makes nothing FAILED",
		edits: swap(planFile, "	case inquiryNotDone:\n		return verdict{next: nextCancel,", `	case inquiryNotDone:
		if t.Decision == 0 {
			return settle(ledger.StatusFailed, ledger.EvidenceFenced, ledger.MethodStatusInquiry, "not done")
		}
		return verdict{next: nextCancel,`),
		tests: some(resolve, ""),
	},
	{
		name: "FENCED believed of a core without a fence", guard: "fence: declared, not guessed",
		edits: swap(planFile, "	if r.fences {\n", "	if r.fences || !r.fences {\n"),
		tests: some(resolve, ""),
	},
	{
		name: "late window not waited out", guard: "age is never evidence; WINDOW_ELAPSED needs the window",
		edits: swap(planFile, "	case !at.After(end):\n", "	case end.IsZero():\n"),
		tests: some(resolve, ""),
	},
	{
		name: "late window by the clock of the host that sent", guard: "WINDOW_ELAPSED is by the database's clock",
		edits: swap(planFile, "	left := r.leftBy\n", "	left := t.SentAt\n"),
		tests: some(resolve, "Window_"),
	},
	{
		name: "one 02 after the window is enough", guard: "WINDOW_ELAPSED needs 02 at least twice",
		edits: swap(planFile, "	case t.NotFound < 1:\n", "	case t.NotFound < 0:\n"),
		tests: some(resolve, ""),
	},
	{
		name: "confirmed in spite of a decision", guard: "decision blocks SUCCESS",
		edits: swap(planFile, "if t.Policy == ledger.PolicyConfirm && t.Decision == 0 {", "if t.Policy == ledger.PolicyConfirm {"),
		tests: some(resolve, ""),
	},
	{
		name: "01 then 02 taken for not done", guard: "FENCED needs inquiry 02 and cancel 02 in one pass",
		edits: swap(planFile, "	case c == cancelNotFound && notFound:\n", "	case c == cancelNotFound:\n		_ = notFound\n"),
		tests: some(resolve, ""),
	},
	{
		name: "flag believed beside another code than 0000", guard: "anything but 0000 is no evidence",
		edits: swap(planFile, "	if code != frame.Done {\n		return inquiryUnusable\n	}\n", ""),
		tests: some(resolve, ""),
	},
	{
		name: "used ID asked about", guard: "0094 is never inquired nor canceled",
		edits: swap(planFile, "	case t.OperatorOnly():\n", "	case t.OperatorOnly() && t.ID == \"\":\n"),
		tests: some(resolve, ""),
	},
	{
		name: "reconciler's echo check off", guard: "echo check",
		edits: swap("services/reconciler/resolve/exchange.go", "	if got != want {\n", "	if got != want && got == \"\" {\n"),
		tests: append(some(resolve, ""), some(matrix, "TestForeign|TestMatrix/WRONG_ECHO")...),
	},
	{
		name: "net cancel made an inquiry", guard: "0420 once, no retry within a pass",
		edits: swap("services/reconciler/resolve/exchange.go", "Tx: corelink.TxNetCancel, Kind: corelink.Mutation, Frame: frame,", "Tx: corelink.TxNetCancel, Kind: corelink.Inquiry, Frame: frame,"),
		tests: append(some(resolve, ""), some(matrix, "TestMatrix/CLOSE_before/0420")...),
	},
	{
		name: "fresh rows waited for as long as the others", guard: "what the core ignores keeps no fresh row waiting",
		edits: swap("services/reconciler/resolve/exchange.go", "return t.lane.first || t.brief && p.known() }", "return t.lane.review && t.brief && p.known() }"),
		tests: some(resolve, "TestSweep_P4HoldsAmong"),
	},
	{
		name: "fresh rows share a lane with those asked before", guard: "a lane for each kind of row",
		edits: swap(laneFile, "Review: l.review, Only: l.part,", "Review: l.review,"),
		tests: some(resolve, ""),
	},
	{
		name: "the oldest due first, always", guard: "behind a backlog a fresh row does not wait for all of it",
		edits: swap(laneFile, "o.Newest = l.newest && (l.first || l.again)\n", "o.Newest = l.newest && l.again\n"),
		tests: some(resolve, "TestSweep_P4HoldsForAFreshRowWhileThousandsDrain"),
	},
	{
		name: "a way to the core looked for at the next sweep only", guard: "a circuit that is tried for a moment is used",
		edits: swap("services/reconciler/resolve/sweep.go", "	case !p.noWay:\n", "	case !p.noWay || !l.review:\n"),
		tests: some(resolve, "TestSweep_P4HoldsWhileBothCircuitsFlap"),
	},
	{
		name: "a lane that stands still forgotten", guard: "readiness tells of a sweep that stands still",
		edits: swap(laneFile, "	case oldest == nil || beat.Before(at):\n", "	case oldest == nil || beat.After(at):\n"),
		tests: some(resolve, "TestReady"),
	},
	{
		name: "decision on a row that is remembered, whoever has its lease", guard: "decision compare-and-set",
		edits: swap("pkg/ledger/gormstore/decisions.go", "AND decision = '' AND lease_token = at_token\n", "AND decision = ''\n"),
		tests: some(gormstore, "TestResolutions_RowThatIsNotAsItWasClaimed"), postgres: true,
	},
	{
		name: "decision on a row that is remembered, whoever decided", guard: "decision compare-and-set",
		edits: swap("pkg/ledger/gormstore/decisions.go", "AND decision = '' AND lease_token = at_token\n", "AND lease_token = at_token\n"),
		tests: some(gormstore, "TestResolutions_RowThatIsNotAsItWasClaimed"), postgres: true,
	},
	{
		name: "resolution of a row that is remembered, whoever has its lease", guard: "outcome compare-and-set",
		edits: swap("pkg/ledger/gormstore/resolutions.go", "AND decision = was_decision AND lease_token = at_token\n", "AND decision = was_decision\n"),
		tests: some(gormstore, "TestResolutions_RowThatIsNotAsItWasClaimed"), postgres: true,
	},
	{
		name: "resolution in doubt taken for nothing", guard: "outcome compare-and-set",
		edits: swap("pkg/ledger/gormstore/resolutions.go", "	if err != nil && !errors.As(err, new(*commitError)) {\n", "	if err != nil {\n"),
		tests: some(gormstore, "TestResolutions_CommitInDoubt"), postgres: true,
	},
	{
		name: "as many rows in hand before a slow core", guard: "few rows wait for net cancels that the core does not answer",
		edits: swap("services/reconciler/resolve/hand.go", "	case after > quickAnswer:\n		h.limit = min(h.least, h.cancels*(1+int(h.wait/after)))\n	case", "	case"),
		tests: some(resolve, "TestHand"),
	},
	{
		name: "rows in hand not bound by their leases", guard: "a row begins its net cancel while half of its lease is left",
		edits: swap("services/reconciler/resolve/hand.go", "h.limit = min(h.least, h.cancels*(1+int(h.wait/after)))", "h.limit = h.least"),
		tests: some(resolve, "TestHand"),
	},
	{
		name: "more rows in hand for each quick inquiry, however slow the net cancels", guard: "a row begins its net cancel while half of its lease is left",
		edits: swap("services/reconciler/resolve/hand.go", "	if after > quickAnswer || !h.slow {\n", "	if after > quickAnswer || after >= 0 {\n"),
		tests: some(resolve, "TestHand|TestSweep_ACoreWhoseNetCancels"),
	},
	{
		name: "a sweep's net cancels counted in full", guard: "rows whose net cancel the core ignores refuse no other",
		edits: swap("services/reconciler/resolve/exchange.go", "Kind: corelink.Mutation, Frame: frame, Particular: t.lane != r.operator,", "Kind: corelink.Mutation, Frame: frame,"),
		tests: some(resolve, "TestResolver_NetCancelsOfASweep"),
	},
	{
		name: "fresh net cancels waited for to the end", guard: "what the core ignores or is slow about keeps no fresh row waiting",
		edits: swap("services/reconciler/resolve/exchange.go", "	if t.brief {\n", "	if t.brief && !t.lane.first {\n"),
		tests: some(resolve, "TestSweep_SlowNetCancels|TestSweep_P4HoldsAmongRowsWhose"),
	},
	{
		name: "everyone in a crowd waited for to the end", guard: "what the core ignores for ever keeps no unlucky row waiting",
		edits: swap(laneFile, "return l.again && rows > cap(l.inquiries) }", "return l.review && rows > cap(l.inquiries) }"),
		tests: some(resolve, "TestSweep_RowsThatWereUnlucky"),
	},
	{
		name: "of rows asked before the oldest due first, always", guard: "what the core ignores for ever keeps no unlucky row waiting",
		edits: swap(laneFile, "o.Newest = l.newest && (l.first || l.again)\n", "o.Newest = l.newest && l.first\n"),
		tests: some(resolve, "TestLane"),
	},
	{
		name: "rows that back off not hurried when the core talks sense again", guard: "what the core's trouble put off does not outlast it",
		edits: swap(attemptFile, "		a.r.sense()\n", ""),
		tests: some(resolve, "TestSetbacks_"),
	},
	{
		name: "a row that is useless by itself hurried at each success", guard: "back-off",
		edits: swap("services/reconciler/resolve/setbacks.go", "now.Sub(s.sense) < s.after ||", ""),
		tests: some(resolve, "TestSetbacks_"),
	},
	{
		name: "what the ledger kept from a pass left to the next interval", guard: "a ledger that is back is asked soon",
		edits: swap("services/reconciler/resolve/sweep.go", "	case errors.Is(err, ledger.ErrUnavailable): // rows", "	case errors.Is(err, errNoWay): // rows"),
		tests: some(resolve, "TestSweep_ALedgerThatIsBack"),
	},
	{
		name: "a moment as long however many are ignored", guard: "rows that the core ignores delay none that it answers",
		edits: swap("services/reconciler/resolve/pace.go", "p.known() && p.ignored.Load() > manyIgnored {", "p.known() && p.ignored.Load() > all {"),
		tests: some(resolve, "TestFairness_Thousands"),
	},
	{
		name: "the second 02 after the window a reason for review", guard: "waiting as the rule says needs no human",
		edits: swap(planFile, "notFound: true, expected: true,\n			why: \"the core has not done it (02); to be", "notFound: true,\n			why: \"the core has not done it (02); to be"),
		tests: some(resolve, "TestEvidence_TheSecondAsking"),
	},
}
