package main

import "slices"

// table is every mutation. A guard of DESIGN P10 that is added to the product is
// to be added here too.
var table = slices.Concat(circuitMutations, linkMutations, listingMutations, paymentMutations, ledgerMutations, resolveMutations, operatorMutations, coreMutations, numberMutations,
	simulationMutations)

// Where the tests of the guards are.
const (
	resilience = "./pkg/resilience"
	corelink   = "./pkg/corelink"
	listings   = "./pkg/corelink/listing"
	frames     = "./pkg/frame"
	ledger     = "./pkg/ledger"
	memstore   = "./pkg/ledger/memstore"
	gormstore  = "./pkg/ledger/gormstore"
	telegram   = "./pkg/telegram"
	payment    = "./services/payment/payment"
	resolve    = "./services/reconciler/resolve"
	simulator  = "./services/corebank/simulator"
	matrix     = "./services/matrix"
)

// some is the tests of a package with such a name; empty for all of them.
func some(pkg, run string) []target { return []target{{pkg: pkg, run: run}} }

// swap is a mutation's one edit.
func swap(file, old, new string) []edit { return []edit{{file, old, new}} }
