package resilience

import (
	"context"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// What a call costs in the gate: the core is a function that answers at once.
func BenchmarkExchange(b *testing.B) {
	kinds := map[string]corelink.Kind{"mutation": corelink.Mutation, "inquiry": corelink.Inquiry}
	for name, kind := range kinds {
		b.Run(name, func(b *testing.B) {
			exchange(b, build(b, standard(), instant), kind)
		})
	}
	b.Run("refused", func(b *testing.B) {
		f := consecutive(1)
		f.CircuitOpenWait = time.Hour
		h := build(b, f, dead)
		for range f.CircuitFailures {
			h.Exchange(context.Background(), payment(time.Hour))
		}
		exchange(b, h, corelink.Mutation)
	})
}

func instant(context.Context, corelink.Call) corelink.Result {
	return corelink.Result{Sent: corelink.SentAll}
}

func exchange(b *testing.B, h house, kind corelink.Kind) {
	call := corelink.Call{Kind: kind, Deadline: time.Now().Add(time.Hour)}
	ctx := context.Background()
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.Exchange(ctx, call)
		}
	})
	b.Run("64callers", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				h.Exchange(ctx, call)
			}
		})
	})
}
