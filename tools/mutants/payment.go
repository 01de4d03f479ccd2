package main

const (
	createFile  = "services/payment/payment/create.go"
	recordFile  = "services/payment/payment/record.go"
	feedFile    = "services/payment/payment/feed.go"
	outcomeFile = "services/payment/payment/outcome.go"
)

// paymentMutations take away what the payment service promises of a payment.
var paymentMutations = []mutation{
	{
		name: "sent before the intent is stored", guard: "intent row before the first byte",
		edits: []edit{
			{createFile, "	// window is the time in which it may be sent.\n	window window\n", "	window window\n	res    corelink.Result\n	answer ledger.Answer\n"},
			{createFile, "	admission, err = s.Store.CreateIntent(writeCtx, *in)\n", `	m := telegram.PaymentRequest{TranID: in.ID, Account: r.Account, Amount: r.Amount}
	early, _ := m.AppendTo(nil)
	r.res = s.Core.Exchange(context.WithoutCancel(ctx), corelink.Call{
		Tx: corelink.TxPayment, Kind: corelink.Mutation, Frame: early, AnswerLength: telegram.AnswerLength,
		Check: checkPayment(in.ID, &r.answer), Deadline: r.deadline,
	})
	admission, err = s.Store.CreateIntent(writeCtx, *in)
`},
			{createFile, `	if err == nil {
		res = s.Core.Exchange(exchanging, corelink.Call{
			Tx: corelink.TxPayment, Kind: corelink.Mutation,
			Frame: frame, AnswerLength: telegram.AnswerLength,
			Check: checkPayment(t.ID, &answer), Ready: r.window.open, Deadline: r.deadline,
		})
	}
`, "	if err == nil {\n		res, answer = r.res, r.answer\n	}\n	_, _ = frame, exchanging\n"},
		},
		tests: some(payment, "Create"),
	},
	{
		name: "intent in doubt sent", guard: "intent row: what may not be stored is not sent",
		edits: swap(createFile, "	admission, err = s.Store.CreateIntent(writeCtx, *in)\n", `	admission, err = s.Store.CreateIntent(writeCtx, *in)
	if errors.Is(err, ledger.ErrUnavailable) {
		return ledger.Admission{Created: true, Transaction: ledger.Transaction{ID: in.ID, Kind: ledger.KindPayment}}, nil
	}
`),
		tests: some(payment, "Intent|Withdraw"),
	},
	{
		name: "outcome judged from the error's type", guard: "outcome from evidence",
		edits: swap(outcomeFile, "	case res.Sent == corelink.SentNone:\n",
			"	case errors.Is(res.Err, corelink.ErrWrite), errors.Is(res.Err, corelink.ErrConnect), errors.Is(res.Err, corelink.ErrNoTime), errors.Is(res.Err, resilience.ErrOpen):\n"),
		tests: some(payment, "Judge|Outcomes"),
	},
	{
		name: "lost answer taken for a decline", guard: "outcome from evidence: a time-out is never a failure",
		edits: swap(outcomeFile, "return outcome{status: ledger.StatusUnknown, reason: lost(res.Err)}",
			"return outcome{status: ledger.StatusFailed, evidence: ledger.EvidenceNotSent, reason: lost(res.Err)}"),
		tests: some(payment, "Judge|Outcomes"),
	},
	{
		name: "used ID taken for a decline", guard: "outcome from evidence: 0094 proves nothing",
		edits: swap(outcomeFile, "case answer.Code == ledger.CodeIDUsed && kind.MovesMoney():", "case answer.Code == ledger.CodeIDUsed && !kind.MovesMoney():"),
		tests: some(payment, "Judge|Outcomes"),
	},
	{
		name: "response code of letters taken for a decline", guard: "outcome from evidence: garbage is no answer",
		edits: swap("pkg/frame/decode.go", "	if !isCode(text) {\n", "	if !isCode(text) && text == \"\" {\n"),
		tests: append(some(telegram, ""), some(matrix, "TestMatrix/CORRUPT_FIELD_response_code/0100")...),
	},
	{
		name: "payment's echo check off", guard: "echo check",
		edits: swap(outcomeFile, "		if m.TranID != id {\n			return errOtherID\n		}\n", ""),
		tests: append(some(payment, ""), some(matrix, "TestForeign|TestMatrix/WRONG_ECHO")...),
	},
	{
		name: "balance's echo check off", guard: "echo check",
		edits: swap("services/payment/payment/balance.go", "			if m.TranID != q.id {\n				return errOtherID\n			}\n", ""),
		tests: append(some(payment, ""), some(matrix, "TestForeign|TestMatrix/WRONG_ECHO")...),
	},
	{
		name: "send window not checked", guard: "a payment is sent within its window or never",
		edits: swap(createFile, "Ready: r.window.open, Deadline", "Ready: nil, Deadline"),
		tests: some(payment, "Window"),
	},
	{
		name: "send window by one clock alone", guard: "the larger of monotonic and wall time",
		edits: swap(outcomeFile, "passed := max(now.Sub(w.start), now.Round(0).Sub(w.start.Round(0)))", "passed := now.Sub(w.start)"),
		tests: some(payment, "Window"),
	},
	{
		name: "caller's cancellation abandons the exchange", guard: "a caller that hangs up changes nothing",
		edits: swap(createFile, "	ctx = span.Detach(ctx)\n	t := &r.intent\n", "	t := &r.intent\n"),
		tests: some(payment, "HangsUp"),
	},
	{
		name: "any number of a client's payments UNKNOWN", guard: "a quota of live UNKNOWN",
		edits: swap(createFile, "	full := s.unknownTooMany(r.Client)\n", "	var full error\n"),
		tests: some(payment, "MaxUnknown"),
	},
	{
		name: "open circuit binds the key", guard: "an open circuit is refused before any row is committed",
		edits: swap(createFile, "	open := s.Core.Admits(corelink.Mutation)\n", "	var open error\n"),
		tests: some(payment, "Circuit"),
	},
	{
		name: "outcome of an adopted row applied without asking for one", guard: "an outcome without answer adds nothing to an adopted row",
		edits: swap(createFile, ` || lost.Current.Status != ledger.StatusUnknown || c.Answer.Code == "" {`, ` || lost.Current.Status != ledger.StatusUnknown {`),
		tests: some(payment, "Adopt"),
	},
	{
		name: "order left out of the intent", guard: "an order has one payment",
		edits: swap(createFile, "Fingerprint: r.fingerprint, Order: r.Order,", "Fingerprint: r.fingerprint,"),
		tests: some(payment, "Order"),
	},
	{
		name: "order left out of the fingerprint", guard: "same key, other canonical fields: refused",
		edits: swap(createFile, "s.HashKey.Payment(r.Account, r.Amount, r.Order, r.Policy)", `s.HashKey.Payment(r.Account, r.Amount, "", r.Policy)`),
		tests: some(payment, "KeyOfAnotherRequest"),
	},
	{
		name: "refusal by the order binds the key", guard: "a refusal before the intent binds no key",
		edits: swap("pkg/ledger/memstore/writer.go", "	order := paidOrder{in.Client, in.Order}\n	if holder, taken := s.orders[order]; taken {\n",
			"	order := paidOrder{in.Client, in.Order}\n	if holder, taken := s.orders[order]; taken {\n		s.keys[key] = binding{id: holder, fingerprint: in.Fingerprint, expires: now.Add(in.KeyLife)}\n"),
		tests: some(payment, "Order"),
	},
	{
		name: "who waits in the first call's process is not woken by it", guard: "single flight: woken at once, without a look at the row",
		edits: swap(feedFile, "	if first := s.flights.find(id); first != nil {\n", "	if first := s.flights.find(id); first != nil && wait < 0 {\n"),
		tests: some(payment, "Waiters"),
	},
	{
		name: "each waiter looks at the row by itself", guard: "single flight: one look for all that wait",
		edits: swap(feedFile, "	f := s.feeds[t.ID]\n", "	var f *feed\n"),
		tests: some(payment, "Waiters|Watch"),
	},
	{
		name: "queue of rows without a bound", guard: "what waits for the ledger is bounded",
		edits: swap(recordFile, "	if r.closed || r.depth >= maxBehind {\n", "	if r.closed {\n"),
		tests: some(payment, "Queue"),
	},
	{
		name: "row given up at the first failure", guard: "a ledger that is down loses no row within the queue's bound",
		edits: swap(recordFile, "		if faults == maxFaults || !sleep(r.quit, wait) {\n", "		if faults <= maxFaults || !sleep(r.quit, wait) {\n"),
		tests: some(payment, "LedgerNeither|TestDrain_Rows"),
	},
	{
		name: "own row taken for another's after a failure", guard: "a row that was stored without saying so is stored once",
		edits: swap(recordFile, "		case err == nil, tried && errors.Is(err, ledger.ErrDuplicateID):\n", "		case err == nil:\n"),
		tests: some(payment, "LedgerNeither"),
	},
}
