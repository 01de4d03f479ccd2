//go:build race

package hardening

// raceDetector says that the tests run under the race detector, and that the
// binaries are to do so too.
const raceDetector = true
