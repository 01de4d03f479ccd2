package simulator

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// FaultError says which parameter of a Fault is wrong, by its name in the
// contract. It does not repeat the value.
type FaultError struct {
	Field       string
	Description string
}

func (e *FaultError) Error() string { return e.Field + ": " + e.Description }

// checked returns the fault with its point, or the *FaultError that is wrong
// with it.
func (f Fault) checked() (Fault, error) {
	rule, known := actionRules[f.Action]
	switch {
	case !known:
		return f, &FaultError{"action", "must be an action of the contract"}
	case f.ID != "":
		return f, &FaultError{"fault_id", "must be unset: the core gives it"}
	case f.When == 0:
		f.When = rule.points[0]
	case !slices.Contains(rule.points, f.When):
		return f, &FaultError{"when", fmt.Sprintf("%s strikes at %s alone", rule.name, rule.points[0])}
	}
	for _, check := range []func(Fault, actionRule) *FaultError{checkMatch, checkOdds, checkTimes, checkAnswer} {
		if err := check(f, rule); err != nil {
			return f, err
		}
	}
	return f, nil
}

func checkMatch(f Fault, rule actionRule) *FaultError {
	_, known := answerTypes[f.MTI]
	switch {
	case f.MTI != "" && !known:
		return &FaultError{"mti", "must be a request of the link port or the listing port"}
	case f.MTI != "" && rule.mti != "" && f.MTI != rule.mti:
		return &FaultError{"mti", rule.name + " is for " + rule.mti + " alone"}
	case isListing(f.MTI) && rule.linkOnly:
		return &FaultError{"mti", rule.name + " is for the link port alone"}
	case isListing(f.MTI) && f.TranID != "":
		return &FaultError{"transaction_id", "means nothing to a listing"}
	case len(f.TranID) > tranid.Length || !isVisible(string(f.TranID)):
		return &FaultError{"transaction_id", "must be 1 to 22 printable characters without a space"}
	default:
		return nil
	}
}

func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

func checkOdds(f Fault, _ actionRule) *FaultError {
	switch {
	case f.Nth < 0:
		return &FaultError{"nth", "must not be negative"}
	case f.Times < 0:
		return &FaultError{"times", "must not be negative"}
	case f.Probability == nil && f.Seed != 0:
		return &FaultError{"seed", "means nothing without a probability"}
	case f.Probability != nil && (math.IsNaN(*f.Probability) || *f.Probability < 0 || *f.Probability > 1):
		return &FaultError{"probability", "must be 0 to 1"}
	default:
		return nil
	}
}

func checkTimes(f Fault, rule actionRule) *FaultError {
	switch {
	case rule.delay && (f.Delay <= 0 || f.Delay > MaxFaultDelay):
		return &FaultError{"delay", fmt.Sprintf("%s needs more than 0 and at most %s", rule.name, MaxFaultDelay)}
	case !rule.delay && f.Delay != 0:
		return meaningless("delay", rule)
	case rule.gap && (f.Gap < 0 || f.Gap > MaxFaultGap):
		return &FaultError{"gap", fmt.Sprintf("%s takes 0 to %s", rule.name, MaxFaultGap)}
	case !rule.gap && f.Gap != time.Duration(0):
		return meaningless("gap", rule)
	default:
		return nil
	}
}

func checkAnswer(f Fault, rule actionRule) *FaultError {
	switch {
	case rule.maxBytes > 0 && (f.Bytes < 1 || f.Bytes > rule.limit(f.MTI)):
		return &FaultError{"bytes", fmt.Sprintf("%s needs 1 to %d", rule.name, rule.limit(f.MTI))}
	case rule.maxBytes == 0 && f.Bytes != 0:
		return meaningless("bytes", rule)
	case rule.code && (!isCode(f.ResponseCode) || f.ResponseCode == codeDone):
		return &FaultError{"response_code", rule.name + " needs four digits, not 0000"}
	case !rule.code && f.ResponseCode != "":
		return meaningless("response_code", rule)
	case rule.field && !isAnswerField(f.MTI, f.Field):
		return &FaultError{"field", rule.name + " needs a field of an answer to the type of frame"}
	case !rule.field && f.Field != "":
		return meaningless("field", rule)
	default:
		return nil
	}
}

func meaningless(field string, rule actionRule) *FaultError {
	return &FaultError{field, "means nothing to " + rule.name}
}

func isCode(text string) bool {
	if len(text) != len(codeDone) {
		return false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}
