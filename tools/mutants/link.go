package main

const (
	linkFile = "pkg/corelink/link.go"
	poolFile = "pkg/corelink/pool.go"
)

// linkMutations take away what keeps an answer from the wrong request, and what
// left from being forgotten.
var linkMutations = []mutation{
	{
		name: "no deadline clip of the read time-out", guard: "one deadline over all of it",
		edits: swap(linkFile, "	if call.Deadline.Before(end) {\n		end = call.Deadline\n	}\n", ""),
		tests: some(corelink, "Deadline|ConnectingUsesUp"),
	},
	{
		name: "no deadline clip of the connect time-out", guard: "connect time counts",
		edits: swap(poolFile, "left := min(deadline.Sub(p.now()), p.flags.ConnectTimeout)", "left := p.flags.ConnectTimeout"),
		tests: some(corelink, "BlackHole|ConnectingUsesUp"),
	},
	{
		name: "socket returned after an anomaly", guard: "socket rule: after any anomaly it is never used again",
		edits: swap(linkFile, "return res.Err == nil && n == length", "return true"),
		tests: some(corelink, "Anomaly|LateAnswer|AnswerAndMore"),
	},
	{
		name: "socket returned with a byte behind the answer", guard: "socket rule: no stray byte",
		edits: swap(linkFile, "return res.Err == nil && n == length", "return res.Err == nil"),
		tests: append(some(matrix, "TestMatrix/EXTRA_BYTES,_one"), some(corelink, "AnswerAndMore")...),
	},
	{
		name: "socket with a lost answer returned", guard: "socket rule: no unanswered request",
		edits: swap(linkFile, "return res.Err == nil && n == length", "return n == length || n == 0"),
		tests: append(some(corelink, "LateAnswer|Anomaly"), some(matrix, "TestMatrix/(BLACK_HOLE|DELAY)")...),
	},
	{
		name: "look before use off", guard: "socket rule: look before use",
		edits: swap(poolFile, "		if s.silent() {", "		if s.silent() || true {"),
		tests: append(some(matrix, "TestForeignAnswer_IsNeverAccepted"), some(corelink, "TrustsNo")...),
	},
	{
		name: "no reset after an anomaly", guard: "socket rule: linger 0",
		edits: swap(poolFile, "_ = tcp.SetLinger(0)", "_ = tcp.SetLinger(-1)"),
		tests: some(corelink, "Reset"),
	},
	{
		name: "partial write taken for nothing sent", guard: "outcome from evidence: Sent counts bytes",
		edits: swap(linkFile, "	case n <= 0:\n", "	case n < len(request):\n"),
		tests: some(corelink, "Write"),
	},
	{
		name: "deadline renewed by a byte", guard: "deadlines are never renewed by a byte that trickles in",
		edits: swap(linkFile, "		more, err = io.ReadAtLeast(conn, buf[n:], length-n)\n", `		for n+more < length && err == nil {
			var some int
			_ = conn.SetDeadline(l.now().Add(l.flags.ReadTimeout))
			some, err = conn.Read(buf[n+more:])
			more += some
		}
		if n+more >= length {
			err = nil
		}
`),
		tests: some(corelink, "Trickle"),
	},
	{
		name: "place in the pool leaked by a failed dial", guard: "the pool cannot stick",
		edits: swap(linkFile, "	defer l.pool.leave()\n	conn, err := l.pool.take(ctx, call.Deadline)\n	if err != nil {\n",
			"	conn, err := l.pool.take(ctx, call.Deadline)\n	if err == nil {\n		defer l.pool.leave()\n	}\n	if err != nil {\n"),
		tests: some(corelink, "Refused|Refuse|Place|AddsUp|GivesBack"),
	},
}
