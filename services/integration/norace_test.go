//go:build !race

package integration

// raceDetector says that the tests run without the race detector, and the
// binaries as well.
const raceDetector = false
