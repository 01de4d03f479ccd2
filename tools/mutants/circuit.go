package main

const (
	circuitFile = "pkg/resilience/circuit.go"
	policyFile  = "pkg/resilience/policy.go"
	verdictFile = "pkg/resilience/verdict.go"
	gateFile    = "pkg/resilience/gate.go"
	courseFile  = "pkg/resilience/course.go"
)

// circuitMutations take away what makes circuits and retries safe for money.
var circuitMutations = []mutation{
	{
		name: "a particular call's failure counted", guard: "only the core's faults count in a circuit",
		edits: swap(courseFile, "v.own = c.call.Particular &&", "v.own = false &&"),
		tests: some(resilience, "Particular"),
	},
	{
		name: "no connection held for a call's own failure", guard: "a core that cannot be reached is not asked",
		edits: swap(courseFile, "v.own = c.call.Particular && !errors.Is(v.cause, corelink.ErrConnect)", "v.own = c.call.Particular && !errors.Is(nil, corelink.ErrConnect)"),
		tests: some(resilience, "Particular"),
	},
	{
		name: "generation check off", guard: "circuit generation: a result of an earlier state is not applied",
		edits: swap(circuitFile, "if p.generation != c.generation {", "if false {"),
		tests: some(resilience, "Stale|Late"),
	},
	{
		name: "half-open place leaked", guard: "half-open cannot stick",
		edits: swap(circuitFile, "	if c.breaker.IsHalfOpen() {\n		c.probing--\n	}\n", ""),
		tests: some(resilience, "HalfOpen|Exchange"),
	},
	{
		name: "half-open lets out more probes than it may", guard: "half-open never lets out more probes than allowed",
		edits: swap(circuitFile, "c.probing+calls >= c.rules.probes", "calls-calls+c.probing >= c.rules.probes"),
		tests: some(resilience, "HalfOpen"),
	},
	{
		name: "panic counted as success", guard: "a permit is settled neutral by default",
		edits: swap(policyFile, "	defer func() {\n		c.settle(p, v)\n", "	v.outcome = success\n	defer func() {\n		c.settle(p, v)\n"),
		tests: some(resilience, "Panic"),
	},
	{
		name: "impatient caller counted as failure", guard: "only the core's faults count in a circuit",
		edits: swap(verdictFile, "case gone || which(res.Err, ours) != nil:", "case !gone && which(res.Err, ours) != nil:"),
		tests: some(resilience, "Impatience|Judge"),
	},
	{
		name: "saturated pool counted as failure", guard: "only the core's faults count in a circuit",
		edits: []edit{
			{verdictFile, "corelink.ErrNotReady, corelink.ErrAbandoned, corelink.ErrSaturated,", "corelink.ErrNotReady, corelink.ErrAbandoned,"},
			{verdictFile, "	corelink.ErrConnect, corelink.ErrTimeout,", "	corelink.ErrSaturated, corelink.ErrConnect, corelink.ErrTimeout,"},
		},
		tests: some(resilience, "Judge|Proves"),
	},
	{
		name: "decline counted as failure", guard: "any valid answer is a success, a decline too",
		edits: swap(verdictFile, "	case res.Answered():\n", "	case res.Answered() && string(res.Answer[26:30]) != \"0051\":\n"),
		tests: some(matrix, "TestMatrix/RESPONSE_CODE_before/0100"),
	},
	{
		name: "ErrOpen instead of the last failure", guard: "the last real failure is returned",
		edits: swap(policyFile, "			return verdict{}, refused\n", "			c.result.Err = refused\n			return verdict{}, refused\n"),
		tests: some(resilience, "Exchange"),
	},
	{
		name: "refused second attempt taken for nothing sent", guard: "outcome from all attempts",
		edits: swap(policyFile, "			return verdict{}, refused\n", "			c.result.Sent, c.result.Err = corelink.SentNone, refused\n			return verdict{}, refused\n"),
		tests: some(resilience, "Exchange"),
	},
	{
		name: "attempt begun with no time left", guard: "a second attempt is not started with no time left",
		edits: swap(policyFile, "	if !c.now().Before(c.call.Deadline) {\n		return verdict{}, corelink.ErrNoTime\n	}\n", ""),
		tests: some(resilience, "Deadline"),
	},
	{
		name: "payment retried", guard: "no retry of a payment",
		edits: swap(gateFile, "	_, c.refused = c.guarded(ctx)\n	return c.end()\n",
			"	var v verdict\n	if v, c.refused = c.guarded(ctx); c.refused == nil && c.mayTryAgain(v) {\n		c.again(ctx)\n	}\n	return c.end()\n"),
		tests: some(resilience, "Mutation"),
	},
	{
		name: "one circuit for payments and inquiries", guard: "the reconciler's inquiries pass while core-request is open",
		edits: swap(gateFile, "c := &course{gate: g, leg: &g.query, call: call}", "c := &course{gate: g, leg: &g.request, call: call}"),
		tests: some(resilience, "Queries"),
	},
}
