package simulator

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// MaxFaults is the most faults that are set at one time.
const MaxFaults = 256

// ErrTooManyFaults says that MaxFaults are set.
var ErrTooManyFaults = errors.New("256 faults are set already: clear some")

// Faults are the faults that were set on a Server, see Options. They live in
// memory. Faults are safe for concurrent use.
//
// Every fault counts and draws for every frame that matches it, whichever fault
// strikes. So what a fault does depends on the frames that match it, in the
// order of their arrival, on its seed, and on the faults set before it, which go
// first; never on those set after it.
type Faults struct {
	mu    sync.Mutex
	armed []*armed // in the order of setting
	last  int64    // the number of the latest
}

// armed is a fault that was set.
type armed struct {
	Fault

	planned plan
	draw    *rand.Rand // nil without a probability
	matched int64
	struck  int64
}

// NewFaults returns an empty set of faults.
func NewFaults() *Faults { return &Faults{} }

// Set adds a fault and returns it with its ID and its point. Errors: *FaultError,
// ErrTooManyFaults.
func (f *Faults) Set(fault Fault) (Fault, error) {
	fault, err := fault.checked()
	if err != nil {
		return Fault{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.armed) == MaxFaults {
		return Fault{}, ErrTooManyFaults
	}
	f.last++
	fault.ID = "fault-" + strconv.FormatInt(f.last, 10)
	a := &armed{Fault: fault, planned: fault.plan()}
	if fault.Probability != nil {
		a.Probability = new(*fault.Probability) // the caller's may change
		a.draw = rand.New(rand.NewPCG(fault.Seed, 0))
	}
	f.armed = append(f.armed, a)
	return fault, nil
}

// List returns all faults in the order of setting.
func (f *Faults) List() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]Fault, len(f.armed))
	for i, a := range f.armed {
		all[i] = a.Fault
	}
	return all
}

// Clear removes the fault with this ID, or all for none, and returns how many
// it removed. Frames that were struck stay so.
func (f *Faults) Clear(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.armed)
	f.armed = slices.DeleteFunc(f.armed, func(a *armed) bool { return id == "" || id == a.ID })
	return before - len(f.armed)
}

// over is the planner of frames that faults may strike; the others are base's.
// accountOf is the account that the original of a 0400 or 0420 is about.
func (f *Faults) over(base planner, accountOf func(tranid.ID) account.Number) planner {
	return func(q request) plan {
		if f.empty() {
			return base(q)
		}
		about := q.account
		if about.IsZero() {
			about = accountOf(q.tranID)
		}
		if struck, ok := f.strike(q, about); ok {
			return struck
		}
		return base(q)
	}
}

func (f *Faults) empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.armed) == 0
}

// strike counts a frame in every fault that it matches, and returns the plan of
// the first that strikes it.
func (f *Faults) strike(q request, about account.Number) (plan, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var first *armed
	for _, a := range f.armed {
		if a.matches(q, about) && a.wouldStrike() && first == nil {
			first = a
		}
	}
	if first == nil {
		return plan{}, false
	}
	first.struck++
	return first.planned, true
}

func (a *armed) matches(q request, about account.Number) bool {
	rule := actionRules[a.Action]
	if rule.mti != "" && rule.mti != q.mti || rule.linkOnly && isListing(q.mti) {
		return false
	}
	if rule.field {
		if _, has := answerField(q.mti, a.Field); !has {
			return false
		}
	}
	return (a.MTI == "" || a.MTI == q.mti) &&
		(a.TranID == "" || a.TranID == q.tranID) &&
		(a.Account.IsZero() || a.Account == about)
}

// wouldStrike counts and draws for one more matching frame. It draws for every
// one, so that the fate of the k-th depends on nothing but the seed and k.
func (a *armed) wouldStrike() bool {
	a.matched++
	if a.draw != nil && a.draw.Float64() >= *a.Probability {
		return false
	}
	return (a.Nth == 0 || a.matched == a.Nth) && (a.Times == 0 || a.struck < a.Times)
}
