package main

const (
	listingFile = "pkg/corelink/listing/listing.go"
	recordsFile = "pkg/frame/listing.go"
	daybookFile = "services/corebank/simulator/daybook.go"
	listFile    = "services/corebank/simulator/listing.go"
)

// listingMutations take away what makes a listing that lies, or that is no
// whole one, an error.
var listingMutations = []mutation{
	{
		name: "listing's prefix believed without bound", guard: "no more memory than an answer may have",
		edits: swap(linkFile, "!ok || length > call.AnswerLength {", "!ok {"),
		tests: some(listings, "RefusesWhatIsNoListing|RealSocket"),
	},
	{
		name: "record count not compared", guard: "record_count agrees or the answer is garbage",
		edits: swap(recordsFile, "d.err == nil && n != int64(d.records) {", "d.err == nil && n < 0 {"),
		tests: append(some(frames, "Listing"), some(telegram, "Listings")...),
	},
	{
		name: "total length not compared", guard: "total_length agrees or the answer is garbage",
		edits: swap(recordsFile, "d.err == nil && n != int64(len(d.frame)-d.prefix) {", "d.err == nil && n < 0 {"),
		tests: append(some(frames, "Listing"), some(telegram, "Listings")...),
	},
	{
		name: "prefix not compared", guard: "the prefix agrees or the answer is garbage",
		edits: swap(recordsFile, "if !ok || !HasPrefix(frame, l.Prefix) {", "if !ok {"),
		tests: append(some(frames, "Listing"), some(telegram, "Listings")...),
	},
	{
		name: "records read beside a decline", guard: "nothing is told beside a decline",
		edits: swap(recordsFile, "if d.err != nil || responseCode != Done {", "if d.err != nil {"),
		tests: append(some(frames, "Listing"), some(telegram, "Listings")...),
	},
	{
		name: "book's echo check off", guard: "echo check",
		edits: swap(listingFile, "if m.SettleDate != day || m.Page != page {", "if m.SettleDate.IsZero() {"),
		tests: some(listings, "RefusesWhatIsNoListing"),
	},
	{
		name: "history's echo check off", guard: "echo check",
		edits: swap(listingFile, "case m.Account != p.Account:", "case m.Account.IsZero():"),
		tests: some(listings, "History"),
	},
	{
		name: "book's order not checked", guard: "a lying listing is an error, not a discrepancy",
		edits: swap(listingFile, "case r.TranID <= last:", "case r.TranID < last && last == \"\":"),
		tests: some(listings, "RefusesWhatIsNoListing"),
	},
	{
		name: "IDs of another day taken", guard: "a lying listing is an error, not a discrepancy",
		edits: swap(listingFile, "case r.TranID.Date() != day:", "case r.TranID == \"\":"),
		tests: some(listings, "RefusesWhatIsNoListing"),
	},
	{
		name: "a connection for several listings", guard: "a connection for each listing",
		edits: swap(listingFile, "	core.PoolIdleTTL = 0\n", ""),
		tests: some(listings, "AConnectionForEachCall"),
	},
	{
		name: "listing told before the book has it", guard: "the simulator is the referee: durable before it is told",
		edits: []edit{
			{listFile, "	if err := b.await(last); err != nil {\n		return nil, err\n	}\n	for i, mv", "	_ = last\n	for i, mv"},
			{listFile, "	if err := b.await(last); err != nil {\n		return nil, err\n	}\n	for _, l", "	_ = last\n	for _, l"},
		},
		tests: some(simulator, "SayNothingBefore"),
	},
	{
		name: "a block of the book split at the wrong place", guard: "a page is the sorted IDs",
		edits: swap(daybookFile, "			b, i = b+1, i-half\n", "			b, i = b+1, 0\n"),
		tests: some(simulator, "PagesAre"),
	},
	{
		name: "a canceled payment told as done", guard: "the book tells what stands",
		edits: swap("services/corebank/simulator/state.go", "line.canceled, line.amount = true, e.Amount", "line.amount = e.Amount"),
		tests: some(simulator, "Book_"),
	},
	{
		name: "a clock that is set back moves a movement", guard: "a statement of some days is one piece",
		edits: swap("services/corebank/simulator/statement.go", "		m.day = s.at(n - 1).day\n", ""),
		tests: some(simulator, "SetBack"),
	},
}
