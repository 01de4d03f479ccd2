package main

const rulesFile = "services/corebank/simulator/rules.go"

// coreMutations make a referee of the simulated core that lets everything pass.
var coreMutations = []mutation{
	{
		name: "fence ignored", guard: "fence",
		edits: []edit{
			{rulesFile, "	case f.fenced:\n		d.code = codeFenced\n		return d\n", ""},
			{"services/corebank/simulator/state.go", "	case f.fenced:\n		return fmt.Errorf(\"debit behind the fence\")\n", ""},
		},
		tests: some(simulator, "Rules|Fence"),
	},
	{
		name: "fence not kept", guard: "fence: durable before its 0430 leaves",
		edits: swap(rulesFile, "		d.flag, d.effect = cancelNone, EffectFence\n", "		d.flag = cancelNone\n"),
		tests: some(simulator, "Rules|Fence"),
	},
	{
		name: "used ID debited again", guard: "at most one execution at the core",
		edits: swap(rulesFile, "	case f.used && !r.NoDedupe:\n", "	case f.used && r.NoDedupe:\n"),
		tests: some(simulator, "Rules"),
	},
	{
		name: "answered before the book has it", guard: "a debit is journaled before it is answered",
		edits: swap("services/corebank/simulator/bank.go", "	if err != nil {\n		return decision{}, err\n	}\n	return d, b.await(last)\n", "	if err != nil {\n		return decision{}, err\n	}\n	go func() { _ = b.await(last) }()\n	return d, nil\n"),
		tests: some(simulator, "BeforeTheBook|Nothing"),
	},
}
