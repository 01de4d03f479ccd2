// Package integration holds tests only. They start the real binaries of the
// three services as child processes, on free ports and on fresh ledgers in
// SQLite and in PostgreSQL, and look at them as the world does: through gRPC,
// through the telegrams that pass on the wire, through signals, and through the
// tables. No binary has a hook for them.
//
// A stack is one core with its book and one ledger. Between the core and whoever
// calls it stands a wire: a TCP proxy that knows frames, keeps a record of each,
// and holds, delays, drops or cuts them when a test tells it to. A test waits
// for what it needs to see, and never for time to pass.
//
// One test waits for nothing: TestChaos lets things happen to all of it as a seed
// has it, for as long as it is told to (make chaos), and then asks whether all that
// was ever said is true.
//
// Every test ends with the same audit of both books (audit_test.go), and every
// process ends with the same look at its log (process_test.go): whole JSON
// lines, no data race, no panic, and not one account number.
package integration
