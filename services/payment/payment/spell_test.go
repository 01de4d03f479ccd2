package payment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type valueKey struct{}

func TestStep_HasTheLimitOrASliceLessAndNeverMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2 * time.Second
		s := &spells{limit: limit}
		for range 3 * spellSlices {
			begun := time.Now()
			deadline, ok := s.step(t.Context()).Deadline()
			if has := deadline.Sub(begun); !ok || has > limit || has <= limit-limit/spellSlices {
				t.Fatalf("a step has %v, %t", has, ok)
			}
			<-time.After(limit / spellSlices / 5)
		}
		begun := time.Now()
		step := s.step(t.Context())
		<-step.Done()
		if took := time.Since(begun); took > limit || took <= limit-limit/spellSlices {
			t.Errorf("the step ended after %v", took)
		}
		if err := step.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if err := s.step(t.Context()).Err(); err != nil {
			t.Errorf("the next one begins with %v", err)
		}
	})
}

func TestStep_KeepsTheValuesOfItsCallAndNotItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spells{limit: time.Second}
		call, leave := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "value"))
		leave()
		step := s.step(call)
		if err := step.Err(); err != nil || step.Value(valueKey{}) != "value" {
			t.Errorf("value %v, error %v", step.Value(valueKey{}), err)
		}
		// Whatever is made under it ends with it, and needs no goroutine for that.
		under, cancel := context.WithCancel(step)
		defer cancel()
		told := false
		context.AfterFunc(step, func() { told = true })
		if err := under.Err(); err != nil {
			t.Errorf("what is under it has ended with %v", err)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if !errors.Is(under.Err(), context.DeadlineExceeded) || !told {
			t.Errorf("what is under it: error %v, told %t", under.Err(), told)
		}
	})
}
