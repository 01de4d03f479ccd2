package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// loaders is how many callers a load has.
const loaders = 12

// load is callers who pay one after the other until they are stopped, and all
// they are told.
type load struct {
	quit  chan struct{}
	stop  func() // ends the load and waits for that
	count atomic.Int64

	mu   sync.Mutex
	told []told
}

// startLoad starts callers of a payment service. It ends with the test.
func startLoad(t testing.TB, p *payment, name string) *load {
	t.Helper()
	l := &load{quit: make(chan struct{})}
	var callers sync.WaitGroup
	for i := range loaders {
		callers.Go(func() {
			for n := 0; !closedWithin(l.quit, l.pause(n)); n++ {
				a := p.payOnce(t, &paymentv1.CreatePaymentRequest{
					IdempotencyKey: fmt.Sprintf("%s-%d-%d", name, i, n), AccountNumber: ordinary, Amount: 1,
				})
				l.note(a)
				if a.code == codes.Unavailable && a.info == nil {
					return // the service is gone
				}
			}
		})
	}
	l.stop = sync.OnceFunc(func() {
		close(l.quit)
		callers.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

func (l *load) note(a told) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, a)
	if a.code == codes.OK {
		l.count.Add(1)
	}
}

// pause is how long a caller waits before his next payment: not at all, unless
// the one before went wrong.
func (l *load) pause(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == 0 || l.told[len(l.told)-1].code == codes.OK {
		return 0
	}
	return 200 * time.Millisecond
}

// awaitPaid waits until n payments have been made.
func (l *load) awaitPaid(t testing.TB, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d payments", n), func(context.Context) error {
		if so := l.count.Load(); so < n {
			return fmt.Errorf("%d so far", so)
		}
		return nil
	})
}

// check holds what the callers were told against the books: what was called
// done is done, and what was called undone is not.
func (l *load) check(t testing.TB, b *books) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.told {
		row := b.rows[a.id()]
		switch {
		case a.code == codes.OK && row.GetStatus() != success:
			t.Errorf("a caller was told that it is done, and the row is %v", row)
		case a.row.GetStatus() == failed && row.GetStatus() != failed:
			t.Errorf("a caller was told that it failed, and the row is %v", row)
		case a.info == nil, a.code == codes.OK, a.reason() == "OUTCOME_UNKNOWN", a.row.GetStatus() == failed:
		default:
			t.Errorf("a caller was told %s", a)
		}
	}
}
