// Package operations holds tests only: they keep docs/operations.md and
// docs/security.md true. Every line of the former is executed as an operator
// would, against the real binaries, and must show what the page shows; every row
// of the latter is asked of the real binaries, or names the tests that hold it.
//
// `make operations-doc` writes what the lines show into the page.
package operations
