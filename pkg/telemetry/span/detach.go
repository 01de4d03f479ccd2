package span

import (
	"context"
	"time"
)

// Detach is ctx without its end, for work that is asked at each step whether it
// is traced. context.WithoutCancel is the same but for the price: it allocates
// each time that it is asked for a value. context.Cause must not be asked of it.
func Detach(ctx context.Context) context.Context { return &detached{ctx} }

type detached struct {
	values context.Context //nolint:containedctx // it is a context
}

// Deadline implements context.Context: there is none.
func (*detached) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context: it does not end.
func (*detached) Done() <-chan struct{} { return nil }

// Err implements context.Context: it has not ended.
func (*detached) Err() error { return nil }

// Value implements context.Context.
func (d *detached) Value(key any) any { return d.values.Value(key) }
