package resolve

import (
	"context"
	"errors"
	"runtime/debug"
)

// PanicError is a panic in the resolution of one row, which harms no other.
type PanicError struct {
	// Value is what was panicked with, Stack where: for the log alone.
	Value any
	Stack []byte
}

// Error says that it was a panic, without what it was about.
func (e *PanicError) Error() string { return "panic while resolving" }

// guarded does work and turns a panic in it into a *PanicError.
func guarded(work func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return work()
}

// logFault logs a fault of ours, once, with all that is known of it.
func (r *Resolver) logFault(ctx context.Context, event string, err error, attrs ...any) {
	attrs = append(attrs, "error", err)
	var panicked *PanicError
	if errors.As(err, &panicked) {
		attrs = append(attrs, "panic", panicked.Value, "stack", string(panicked.Stack))
	}
	r.log.ErrorContext(ctx, event, attrs...)
}
