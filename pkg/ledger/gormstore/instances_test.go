package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Several instances on one book are what the conformance suite, which has one
// store a case, does not see.
func eachPair(t *testing.T, test func(t *testing.T, instances []*gormstore.Store)) {
	t.Helper()
	eachDatabase(t, func(t *testing.T, dsn string) {
		test(t, []*gormstore.Store{openBook(t, dsn), openBook(t, dsn), openBook(t, dsn)})
	})
}

func TestInstances_OneKeyIsCreatedOnce(t *testing.T) {
	eachPair(t, func(t *testing.T, instances []*gormstore.Store) {
		var created atomic.Int64
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				in := intent(int64(i))
				in.Key = "one"
				admission, err := instances[i%len(instances)].CreateIntent(context.Background(), in)
				if err != nil {
					t.Error(err)
				}
				if admission.Created {
					created.Add(1)
				}
			})
		}
		all.Wait()
		if created.Load() != 1 {
			t.Errorf("created %d times", created.Load())
		}
	})
}

// Each instance writes the same keys and orders in another order: none may wait on
// another that waits on it.
func TestInstances_BatchesThatOverlapAllEnd(t *testing.T) {
	eachPair(t, func(t *testing.T, instances []*gormstore.Store) {
		const keys, rounds = 40, 3
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for round := range rounds {
			var created [keys]atomic.Int64
			var all sync.WaitGroup
			for i, s := range instances {
				for _, key := range rand.Perm(keys) {
					all.Go(func() {
						in := intent(int64((round*len(instances)+i)*keys + key))
						in.Key = ledger.IdempotencyKey(fmt.Sprintf("key-%d-%d", round, key))
						in.Order = ledger.OrderID(fmt.Sprintf("order-%d-%d", round, keys-key))
						admission, err := s.CreateIntent(ctx, in)
						if err != nil {
							t.Errorf("key %d: %v", key, err)
							return
						}
						if !admission.Created {
							return
						}
						created[key].Add(1)
						if _, err := s.Transition(ctx, ledger.Change{
							ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusFailed, Evidence: ledger.EvidenceAnswered,
							Answer: ledger.Answer{Code: "0051"}, By: payer,
						}); err != nil {
							t.Errorf("outcome of key %d: %v", key, err)
						}
					})
				}
			}
			all.Wait()
			for key := range created {
				if n := created[key].Load(); n != 1 {
					t.Errorf("key %d was created %d times", key, n)
				}
			}
		}
	})
}

func TestInstances_KeyIsBoundAgainOnce(t *testing.T) {
	eachPair(t, func(t *testing.T, instances []*gormstore.Store) {
		old := intent(0)
		old.Key = "one"
		ctx := context.Background()
		if _, err := instances[0].CreateIntent(ctx, old); err != nil {
			t.Fatal(err)
		}
		if _, err := instances[0].Transition(ctx, ledger.Change{
			ID: old.ID, From: ledger.StatusRequested, To: ledger.StatusFailed, Evidence: ledger.EvidenceNotSent, By: payer,
		}); err != nil {
			t.Fatal(err)
		}
		var created atomic.Int64
		var all sync.WaitGroup
		for i := range 15 {
			all.Go(func() {
				in := intent(int64(i) + 1)
				in.Key = "one"
				admission, err := instances[i%len(instances)].CreateIntent(ctx, in)
				if err != nil {
					t.Error(err)
				}
				if admission.Created {
					created.Add(1)
				}
			})
		}
		all.Wait()
		if created.Load() != 1 {
			t.Errorf("bound again %d times", created.Load())
		}
	})
}

func TestInstances_ShareDueRowsAndNumbers(t *testing.T) {
	eachPair(t, func(t *testing.T, instances []*gormstore.Store) {
		ctx := context.Background()
		const rows = 60
		for i := range int64(rows) {
			inStatus(t, instances[0], i, ledger.StatusUnknown)
		}
		var mu sync.Mutex
		claimed, numbers := map[tranid.ID]int{}, map[int64]int{}
		var all sync.WaitGroup
		for _, s := range instances {
			all.Go(func() {
				for range 8 {
					claims, err := s.Claim(ctx, ledger.ClaimOptions{Limit: 10, Lease: time.Hour})
					if err != nil {
						t.Error(err)
					}
					block, err := s.NextBlock(ctx, today, 3, 0)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					for _, c := range claims {
						claimed[c.Transaction.ID]++
					}
					for n := range block.Count {
						numbers[block.First+n]++
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if len(claimed) != rows || len(numbers) != 3*8*len(instances) {
			t.Errorf("%d rows and %d numbers", len(claimed), len(numbers))
		}
		for id, n := range claimed {
			if n != 1 {
				t.Errorf("%s was claimed %d times", id, n)
			}
		}
	})
}

func TestInstances_OutcomeAndResolutionAtOnceAreOne(t *testing.T) {
	eachPair(t, func(t *testing.T, instances []*gormstore.Store) {
		ctx := context.Background()
		for round := range int64(5) {
			id := inStatus(t, instances[0], round, ledger.StatusUnknown).ID
			moves := []ledger.Change{
				{To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered, Answer: ledger.Answer{Code: "0000"}},
				{To: ledger.StatusCanceled, Evidence: ledger.EvidenceCancelConfirmed, Method: ledger.MethodNetCancel},
				{To: ledger.StatusSuccess, Evidence: ledger.EvidenceProcessed, Method: ledger.MethodStatusInquiry},
			}
			var won atomic.Int64
			var all sync.WaitGroup
			for i, c := range moves {
				c.ID, c.From, c.By = id, ledger.StatusUnknown, payer
				all.Go(func() {
					_, err := instances[i].Transition(ctx, c)
					if err == nil {
						won.Add(1)
					} else if !errors.Is(err, ledger.ErrLost) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if won.Load() != 1 {
				t.Errorf("%d moves were made", won.Load())
			}
		}
	})
}
