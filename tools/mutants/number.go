package main

const (
	tranid     = "./pkg/tranid"
	allocFile  = "pkg/tranid/allocator.go"
	blockFile  = "pkg/tranid/block.go"
	fetchFile  = "pkg/tranid/fetch.go"
	secretFile = "pkg/veiled/veiled.go"
)

// numberMutations take away what keeps a transaction number from being given out
// twice, and payments from the reserve.
var numberMutations = []mutation{
	{
		name: "no floor under a block", guard: "a lost table of blocks does not reissue",
		edits: swap(blockFile, "return elapsed.Milliseconds() * perMillisecond", "return elapsed.Milliseconds() * 0"),
		tests: some(tranid, "LostTable|StartsAt"),
	},
	{
		name: "what an allocator was given is no floor", guard: "an allocator repeats no number of its own",
		edits: swap(fetchFile, "max(floor(at, o.day), o.above)", "max(floor(at, o.day), 0)"),
		tests: some(tranid, "RepeatsNoneOfItsOwn"),
	},
	{
		name: "payments take of the reserve", guard: "the reserve is for inquiries",
		edits: swap(allocFile, "if reserved && (a.failing ||", "if (a.failing ||"),
		tests: some(tranid, "Reserve"),
	},
	{
		name: "the reserve runs ahead of the floor", guard: "a lost table of blocks does not reissue",
		edits: swap(fetchFile, "a.hold(&a.pace, min(lead, longestPace), a.start)", "a.hold(&a.pace, min(lead, 0), a.start)"),
		tests: some(tranid, "Reserve"),
	},
	{
		name: "the veil is thin", guard: "no printer finds an account number",
		edits: swap(secretFile, "b[i] ^= pad[i%len(pad)]", "b[i] ^= pad[i%len(pad)] & 0"),
		tests: some("./pkg/veiled", ""),
	},
}
