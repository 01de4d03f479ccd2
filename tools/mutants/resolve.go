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
			{attemptFile, "	row, err := a.r.store.Decide(deciding, a.row.ID, a.by, v.why)\n", "	said, step, err := a.r.netCancel(ctx, a.turn.lane, a.row.ID)\n	if err != nil {\n		return err\n	}\n	row, err := a.r.store.Decide(deciding, a.row.ID, a.by, v.why)\n"},
			{attemptFile, "	said, step, err := a.r.netCancel(ctx, a.turn.lane, row.ID)\n	if err != nil {\n		return err\n	}\n	a.cancel = said\n", "	a.cancel = said\n"},
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
		edits: swap("services/reconciler/resolve/exchange.go", "	if l.first {\n		return", "	if l.first && l.review {\n		return"),
		tests: some(resolve, "TestSweep_P4HoldsAmong"),
	},
	{
		name: "fresh rows share a lane with those asked before", guard: "a lane for each kind of row",
		edits: swap(laneFile, "Review: l.review, Only: l.part,", "Review: l.review,"),
		tests: some(resolve, ""),
	},
	{
		name: "the oldest due first, always", guard: "behind a backlog a fresh row does not wait for all of it",
		edits: swap(laneFile, "o.Newest = l.newest && l.first\n", "o.Newest = l.newest && l.first && l.review\n"),
		tests: some(resolve, "TestSweep_P4HoldsForAFreshRowWhileThousandsDrain"),
	},
	{
		name: "a way to the core looked for at the next sweep only", guard: "a circuit that is tried for a moment is used",
		edits: swap("services/reconciler/resolve/sweep.go", "	return p.noWay\n", "	return p.noWay && l.review\n"),
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
		edits: swap("services/reconciler/resolve/hand.go", "	case after > quickAnswer:\n		h.limit = h.least\n	case", "	case"),
		tests: some(resolve, "TestHand"),
	},
}
