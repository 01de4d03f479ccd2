// Package matrix is tests only: every fault that the simulated core knows, on
// every frame of the link port, over a pool that is cold and one that is warm.
// Payment service, reconciler, circuits, links and core are the real ones, in
// one process, over sockets of the loopback; the ledger is in memory. Referees
// are the ledger's rows, the circuits' counts, the pools' metrics, what the core
// saw of each connection, and the core's journal.
//
// cells_test.go is the table, house_test.go what stands around it.
package matrix
