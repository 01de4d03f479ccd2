package access_test

import (
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/access"
)

func TestMeter_EachClientHasABucket(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m := access.NewMeter(access.Limits{Rate: 10, Burst: 3}, func() time.Time { return now })
	for n := range 3 {
		if _, _, ok := m.Begin("shop"); !ok {
			t.Fatalf("call %d refused", n+1)
		}
	}
	_, wait, ok := m.Begin("shop")
	if ok || wait != 100*time.Millisecond {
		t.Errorf("call 4: let through %t, told to wait %s", ok, wait)
	}
	if _, _, ok := m.Begin("other"); !ok {
		t.Error("another client is refused for it")
	}
	now = now.Add(wait)
	if _, _, ok := m.Begin("shop"); !ok {
		t.Error("refused after the wait")
	}
	if _, _, ok := m.Begin("shop"); ok {
		t.Error("a refused call filled the bucket")
	}
	now = now.Add(time.Hour)
	passed := 0
	for range 10 {
		if _, _, ok := m.Begin("shop"); ok {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("%d at once after an hour, want 3", passed)
	}
}

func TestMeter_CallsUnderWay(t *testing.T) {
	m := access.NewMeter(access.Limits{InFlight: 2}, time.Now)
	first, _, ok := m.Begin("shop")
	_, _, ok2 := m.Begin("shop")
	if !ok || !ok2 {
		t.Fatal("refused below the limit")
	}
	if _, wait, ok := m.Begin("shop"); ok || wait <= 0 {
		t.Errorf("third: let through %t, told to wait %s", ok, wait)
	}
	if _, _, ok := m.Begin("other"); !ok {
		t.Error("another client is refused for it")
	}
	first()
	if _, _, ok := m.Begin("shop"); !ok {
		t.Error("refused after one has ended")
	}
}

func TestMeter_WithoutLimits(t *testing.T) {
	m := access.NewMeter(access.Limits{}, time.Now)
	for range 10_000 {
		done, _, ok := m.Begin("shop")
		if !ok {
			t.Fatal("refused")
		}
		defer done()
	}
}
