package integration

import (
	"context"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what must come; it is spent only
	// where something is broken.
	patience = 60 * time.Second
	// lookEvery is how often it looks.
	lookEvery = 25 * time.Millisecond
)

// eventually looks until look has nothing to object to, and fails the test with
// the last objection when patience is at an end.
func eventually(t testing.TB, what string, look func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	objection := errUnseen
	for {
		err := look(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil { // else it is about the look that was cut short
			objection = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, patience, objection)
		}
	}
}

// closedWithin reports whether the channel is closed in time.
func closedWithin(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
