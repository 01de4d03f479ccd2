package main

const (
	simulation = "./services/simulation"
	// simulatedDays is how many days the simulation is given to find a guard that is
	// missing (DESIGN P10).
	simulatedDays = "-seeds=500"
)

// days is the simulation, whose first day that breaks a promise ends it.
var days = []target{{pkg: simulation, run: "^TestSeeds$", args: simulatedDays}}

// simulationMutations take away the guards of DESIGN P10. The simulation must miss
// each, by what it leads to alone: it knows nothing of how the product is built.
// What a store of SQL does is taken from the one in memory.
var simulationMutations = []mutation{
	{
		name: "simulation: sent before the intent is stored", guard: "intent row",
		edits: swap(createFile, "	admission, err = s.Store.CreateIntent(writeCtx, *in)\n", `	var told ledger.Answer
	m := telegram.PaymentRequest{TranID: in.ID, Account: r.Account, Amount: r.Amount}
	early, _ := m.AppendTo(nil)
	s.Core.Exchange(context.WithoutCancel(ctx), corelink.Call{
		Tx: corelink.TxPayment, Kind: corelink.Mutation, Frame: early, AnswerLength: telegram.AnswerLength,
		Check: checkPayment(in.ID, &told), Deadline: r.deadline,
	})
	admission, err = s.Store.CreateIntent(writeCtx, *in)
`),
		tests: days,
	},
	{
		name: "simulation: intent in doubt sent", guard: "intent row: what may not be stored is not sent",
		edits: swap(createFile, "	admission, err = s.Store.CreateIntent(writeCtx, *in)\n", `	admission, err = s.Store.CreateIntent(writeCtx, *in)
	if errors.Is(err, ledger.ErrUnavailable) {
		return ledger.Admission{Created: true, Transaction: ledger.Transaction{ID: in.ID, Kind: ledger.KindPayment}}, nil
	}
`),
		tests: days,
	},
	simulated(paymentMutations, "lost answer taken for a decline", "outcome from evidence"),
	{
		name: "simulation: time-out taken for a refusal by the core", guard: "outcome from evidence: a time-out is never a failure",
		edits: swap(outcomeFile, "return outcome{status: ledger.StatusUnknown, reason: lost(res.Err)}",
			"return outcome{status: ledger.StatusFailed, evidence: ledger.EvidenceAnswered, answer: ledger.Answer{Code: \"0091\"}, reason: lost(res.Err)}"),
		tests: days,
	},
	simulated(linkMutations, "partial write taken for nothing sent", "outcome from evidence: Sent counts bytes"),
	simulated(ledgerMutations, "outcome compare-and-set off", "outcome compare-and-set"),
	simulated(ledgerMutations, "decision compare-and-set off, memory", "decision compare-and-set"),
	simulated(ledgerMutations, "decision does not block SUCCESS", "decision blocks SUCCESS"),
	simulated(resolveMutations, "FAILED on 02 alone", "fence"),
	simulated(resolveMutations, "FENCED believed of a core without a fence", "fence: declared, not guessed"),
	{
		name: "simulation: FENCED without the net cancel", guard: "fence: inquiry 02 and then net cancel 02",
		edits: swap(attemptFile, "	said, step, err := a.r.netCancel(ctx, a.turn, row.ID)\n",
			"	said, step, err := cancelNotFound, Step{}, error(nil)\n	if a.inquiry != inquiryNotDone {\n		said, step, err = a.r.netCancel(ctx, a.turn, row.ID)\n	}\n"),
		tests: days,
	},
	simulated(ledgerMutations, "key bound again without compare-and-set, memory", "key re-bind compare-and-set"),
	simulated(ledgerMutations, "UNKNOWN lets its key go", "key-lives-until-final"),
	simulated(ledgerMutations, "key lives no longer than its life", "key-lives-until-final"),
	{
		name: "simulation: key of an open payment purged", guard: "key-lives-until-final",
		edits: swap("pkg/ledger/memstore/keep.go", "		if s.rows[bound.id].Status.Final() {\n", "		if bound.id != \"\" {\n"),
		tests: days,
	},
	{
		name: "simulation: final row put into review", guard: "outcome compare-and-set: a postponement's",
		edits: swap(memQueue, "(p.NeedsReview || !r.Owed())", "!r.Owed()"),
		tests: days,
	},
	{
		name: "simulation: postponed without a lease", guard: "lease token and status in a postponement's compare-and-set",
		edits: swap(memQueue, "	case r.Status != ledger.StatusUnknown && (p.NeedsReview || !r.Owed()), p.Token == \"\", r.leaseToken != p.Token:\n", "	case r.leaseToken != p.Token:\n"),
		tests: days,
	},
	{
		name: "simulation: drain waits for no exchange", guard: "SIGTERM loses no row",
		edits: swap("services/payment/payment/service.go", "		s.work.Wait()\n", ""),
		tests: days,
	},
	simulated(ledgerMutations, "order let go with UNKNOWN", "an order is paid once"),
	simulated(linkMutations, "socket returned after an anomaly", "socket rule"),
	simulated(linkMutations, "socket with a lost answer returned", "socket rule: no unanswered request"),
	simulated(linkMutations, "look before use off", "socket rule: look before use"),
	simulated(paymentMutations, "payment's echo check off", "echo check"),
	simulated(paymentMutations, "balance's echo check off", "echo check"),
	simulated(resolveMutations, "reconciler's echo check off", "echo check"),
	simulated(circuitMutations, "generation check off", "circuit generation"),
	simulated(circuitMutations, "payment retried", "no retry of a payment"),
}

// simulated is a mutation that tests of a package know, for the simulation to find.
func simulated(known []mutation, name, guard string) mutation {
	for _, m := range known {
		if m.name == name {
			return mutation{name: "simulation: " + name, guard: guard, edits: m.edits, tests: days}
		}
	}
	panic("there is no mutation named " + name)
}
