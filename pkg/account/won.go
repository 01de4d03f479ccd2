package account

import (
	"errors"
	"math"
)

// Won is an amount of money in won, the smallest unit there is of it.
type Won int64

// MaxPayment is the largest amount of one payment: 12 digits, the width of the
// field that carries it.
const MaxPayment Won = 999_999_999_999

// ErrOverflow says that a sum does not fit.
var ErrOverflow = errors.New("amount overflows")

// Add returns a + b, or ErrOverflow.
func (a Won) Add(b Won) (Won, error) {
	if (b > 0 && a > math.MaxInt64-b) || (b < 0 && a < math.MinInt64-b) {
		return 0, ErrOverflow
	}
	return a + b, nil
}
