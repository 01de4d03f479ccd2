package settlement

import (
	"context"
	"errors"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// patience is how often something is tried that may work the next time: a run of
// an hour should not end for one connection that broke.
type patience struct {
	tries int
	// pause is before the second try; it doubles.
	pause time.Duration
	// limit bounds each try.
	limit time.Duration
}

// The patience with the ledger and with the core's book.
var (
	ledgerPatience = patience{tries: 4, pause: 250 * time.Millisecond, limit: 10 * time.Second}
	bookPatience   = patience{tries: 4, pause: 250 * time.Millisecond, limit: 15 * time.Second}
)

// try calls f until it succeeds, says what another call would not change, or was
// tried often enough.
func (p patience) try(ctx context.Context, f func(ctx context.Context) error) error {
	err := p.once(ctx, f)
	for n := 1; err != nil && n < p.tries && !isVerdict(err); n++ {
		timer := time.NewTimer(p.pause << (n - 1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		}
		err = p.once(ctx, f)
	}
	return err
}

func (p patience) once(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, p.limit)
	defer stop()
	return f(ctx)
}

// isVerdict reports whether the ledger has said what it will say again.
func isVerdict(err error) bool {
	return errors.Is(err, ledger.ErrRunOver) || errors.Is(err, ledger.ErrDayRetired) || errors.Is(err, ledger.ErrInvalidRow)
}
