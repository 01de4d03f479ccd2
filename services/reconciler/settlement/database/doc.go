// Package database holds tests and benchmarks of settlement over real ledgers, in
// SQLite and in PostgreSQL, and nothing else. The core's book is a fake.
package database
