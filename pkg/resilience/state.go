package resilience

import (
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// State is what a circuit does with a call. The zero State is invalid.
type State uint8

// The states.
const (
	// Closed lets every call pass.
	Closed State = iota + 1
	// Open refuses every call until its wait is over.
	Open
	// HalfOpen lets a limited number of probes pass.
	HalfOpen
)

// String is the state's name in the contract.
func (s State) String() string {
	switch s {
	case Closed:
		return "CLOSED"
	case Open:
		return "OPEN"
	case HalfOpen:
		return "HALF_OPEN"
	default:
		return fmt.Sprintf("INVALID(%d)", uint8(s))
	}
}

// stateOf is failsafe-go's state in our words.
func stateOf(s circuitbreaker.State) State {
	switch s {
	case circuitbreaker.ClosedState:
		return Closed
	case circuitbreaker.OpenState:
		return Open
	case circuitbreaker.HalfOpenState:
		return HalfOpen
	default:
		return 0
	}
}

// ErrOpen is what errors.Is finds in every refusal by a circuit, open or
// half-open.
var ErrOpen = circuitbreaker.ErrOpen

// OpenError is a refusal by a circuit. The call was not tried; nothing left.
type OpenError struct {
	// Name is the circuit's.
	Name string
	// State is Open, or HalfOpen when every probe's place is taken.
	State State
	// RetryAfter is when calling again may help: the time to the next probe
	// or, of a half-open circuit, a short while in which its probes may end.
	// It is never zero.
	RetryAfter time.Duration
}

// Error names the circuit and the wait.
func (e *OpenError) Error() string {
	return fmt.Sprintf("circuit %s is %s, retry after %s", e.Name, e.State, e.RetryAfter.Round(time.Millisecond))
}

// Unwrap is ErrOpen.
func (*OpenError) Unwrap() error { return ErrOpen }

// Stats is one circuit at one instant; its numbers belong together.
type Stats struct {
	// Name is the label of its metrics: core-request or core-query.
	Name string
	Mode Mode
	// State is Open until the first call after the wait: circuits do not move
	// by themselves.
	State State
	// Buffered is how many results the present state judges, Failed how many
	// of them are failures. An open circuit shows those that opened it.
	Buffered, Failed int
	// FailureRate is Failed of Buffered in percent; 0 while there is none.
	FailureRate float64
	// ProbesInFlight is how many probes of this half-open state are under way.
	ProbesInFlight int
	// Opened and Rejected count since the start of the process: how often it
	// opened, and how many calls it refused.
	Opened, Rejected uint64
	// Stale counts ends of calls that began in an earlier state. They were not
	// applied. Neutral counts ends that said nothing of the core.
	Stale, Neutral uint64
	// RetryAfter is when a call may be let through again; 0 if one is now.
	RetryAfter time.Duration
}
