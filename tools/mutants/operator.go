package main

const (
	owedFile = "services/reconciler/resolve/owed.go"
	hintFile = "services/reconciler/resolve/hint.go"
)

// operatorMutations take away what an operator's word and a core's hint are worth,
// and what they are not.
var operatorMutations = []mutation{
	{
		name: "operator's FAILED decides nothing", guard: "an operator's FAILED or CANCELED sets the decision",
		edits: swap(changeFile, "	if undone {\n		t.Decision = DecisionCancel\n	}\n", "	_ = undone\n"),
		tests: append(some(ledger, "Settlement"), some(memstore, "Conformance")...),
	},
	{
		name: "operator's decision not written, SQL", guard: "an operator's FAILED or CANCELED sets the decision",
		edits: swap(gormMoves, "	\"next_resolve_at = new_resolve_at\", \"decision = new_decision\",\n", "	\"next_resolve_at = new_resolve_at\",\n"),
		tests: some(gormstore, "Batch_SettlementsOfOperators"),
	},
	{
		name: "operator settles what is still being asked about", guard: "only what needs review is settled by an operator",
		edits: swap(changeFile, "		return t.Status == from && r.fits(t) && t.NeedsReview\n", "		return t.Status == from && r.fits(t)\n"),
		tests: append(some(ledger, "Apply"), some(memstore, "Conformance")...),
	},
	{
		name: "owed net cancel forgotten", guard: "the core is told of an operator's FAILED or CANCELED",
		edits: swap(changeFile, "	if owed {\n		t.NextResolveAt = now\n	}\n", "	_ = owed\n"),
		tests: append(some(ledger, "Settlement"), some(resolve, "Owed_")...),
	},
	{
		name: "used ID owed a net cancel", guard: "0094 is never canceled",
		edits: swap(changeFile, "	owed := undone && !t.OperatorOnly()\n", "	owed := undone\n"),
		tests: append(some(ledger, "Settlement"), some(resolve, "Owed_")...),
	},
	{
		name: "owed net cancel done with any answer", guard: "0420 until it is answered",
		edits: swap(owedFile, "	case cancelUnusable:\n		return verdict{next: nextWait,", "	case cancelUnusable:\n		return verdict{next: nextSettle,"),
		tests: some(resolve, "Owed_"),
	},
	{
		name: "owed net cancel done without an answer", guard: "0420 until it is answered",
		edits: swap(owedFile, "	default:\n		return verdict{next: nextWait,", "	default:\n		return verdict{next: nextSettle,"),
		tests: some(resolve, "Owed_"),
	},
	{
		name: "late window of an owed net cancel not waited out", guard: "without a fence 02 is no end before the window is",
		edits: swap(owedFile, "if end := r.windowEnd(t); !at.After(end) {", "if end := r.windowEnd(t); end.IsZero() {"),
		tests: some(resolve, "Owed_"),
	},
	{
		name: "ghost after an operator's FAILED kept quiet", guard: "evidence against a final row is alarmed",
		edits: swap(owedFile, "	if undone && after.Status == ledger.StatusFailed {\n", "	if undone && after.Status == ledger.StatusSuccess {\n"),
		tests: some(resolve, "Owed_"),
	},
	{
		name: "repaid without the lease, memory", guard: "the end of an owed net cancel is a compare-and-set",
		edits: swap(memErrand, "	case !r.Owed(), p.Token == \"\", r.leaseToken != p.Token:\n", "	case !r.Owed():\n"),
		tests: some(memstore, "Conformance"),
	},
	{
		name: "repaid without the lease, SQL", guard: "the end of an owed net cancel is a compare-and-set",
		edits: swap(gormErrands, "AND lease_token = ? AND lease_token <> ''", "AND (lease_token = ? OR lease_token <> '')"),
		tests: some(gormstore, conformance),
	},
	{
		name: "no discrepancy of what the core had done, SQL", guard: "an answer 01 after an operator's FAILED is a discrepancy",
		edits: swap(gormErrands, "		if !differs {\n", "		if !differs || differs {\n"),
		tests: some(gormstore, conformance),
	},
	{
		name: "hint shortens adoption, memory", guard: "a hint never shortens adoption",
		edits: swap(memErrand, "	if !ok || r.Status != ledger.StatusUnknown ||", "	if ok && r.Status == ledger.StatusRequested {\n		r.AdoptAt = now\n	}\n	if !ok || r.Status != ledger.StatusUnknown ||"),
		tests: some(memstore, "Conformance"),
	},
	{
		name: "hint hastens whatever is not due, SQL", guard: "a hint is of what is UNKNOWN",
		edits: swap(gormErrands, "	later := whileUnknown + ", "	later := byID + "),
		tests: some(gormstore, conformance),
	},
	{
		name: "hint spends an attempt", guard: "a hint spends no attempt",
		edits: swap(attemptFile, "	if a.turn.hinted {\n		p = unspent(&a.claim, v)\n	}\n", ""),
		tests: some(resolve, "Hint_"),
	},
	{
		name: "hint counts however often it comes", guard: "a hint counts once in five seconds for a row",
		edits: []edit{
			{hintFile, "	if _, again := h.resting[id]; again {\n		return false\n	}\n", ""},
			{hintFile, "	if _, again := h.resting[id]; again {\n		return hintRepeated\n	}\n", ""},
		},
		tests: some(resolve, "Hint_"),
	},
	{
		name: "hints without a bound", guard: "a flood of hints costs so many reads a second and no more",
		edits: swap(hintFile, "	if h.tokens < 1 {\n", "	if h.tokens < 1 && id == \"\" {\n"),
		tests: some(resolve, "Hint_AFlood"),
	},
}
