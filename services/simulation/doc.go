// Package simulation is tests: whole bank days in one process, under virtual time,
// with everything dying (DESIGN P10). Callers, payment services, reconcilers, the
// wire, the core and the ledger are the real code; what is between them misbehaves
// as one seed says, and an auditor (package audit) who trusts nobody looks on.
//
//	go test ./simulation                                 as many days as fit into CI
//	go test ./simulation -run TestSeed -seed 7 -v        one day again, told
//	go test ./simulation -run TestSeeds -seeds 10000     many
//
// docs/proof.md says what is simulated and what is not.
package simulation
