//go:build !race

package hardening

// raceDetector says that the tests run without the race detector, and the
// binaries as well.
const raceDetector = false
