package gormstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Payments and inquiries of several instances at once, each with a restart in
// between, and with blocks that are soon used up.
func TestInstances_NoTransactionIDIsGivenTwice(t *testing.T) {
	eachPair(t, func(t *testing.T, instances []*gormstore.Store) {
		const callers, each = 48, 100
		var mu sync.Mutex
		seen := map[tranid.ID]bool{}
		for range 2 {
			var allocators []*tranid.Allocator
			for _, s := range instances {
				allocators = append(allocators, tranid.NewAllocator(s, time.Now, 10))
			}
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					next := allocators[i%len(allocators)].Next
					if i%2 == 0 {
						next = allocators[i%len(allocators)].NextReserved
					}
					for range each {
						id, _, err := next(context.Background())
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						if seen[id] {
							t.Errorf("%s twice", id)
						}
						seen[id] = true
						mu.Unlock()
					}
				})
			}
			all.Wait()
			for _, a := range allocators {
				if err := a.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
		if len(seen) != 2*callers*each {
			t.Errorf("%d IDs of %d", len(seen), 2*callers*each)
		}
	})
}
