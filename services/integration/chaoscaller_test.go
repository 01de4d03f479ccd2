package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// The rpcs by which a caller is told something.
const (
	create  = "CreatePayment"
	get     = "GetPayment"
	balance = "GetBalance"
)

// heard is what a caller was told, and by whom.
type heard struct {
	told

	rpc, key, order string
	by              *instance
	// number is the account of a balance.
	number string
	// asked and at are when he asked and was told.
	asked, at time.Time
}

// hearsay is all that callers were told. It is safe for concurrent use.
type hearsay struct {
	mu    sync.Mutex
	all   []heard
	calls []*paymentv1.CreatePaymentRequest
	// baskets counts the payments for orders that callers share.
	baskets atomic.Int64
}

func (h *hearsay) note(what heard) {
	what.at = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, what)
}

func (h *hearsay) noteCall(call *paymentv1.CreatePaymentRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
}

// last is the last n payments that were tried.
func (h *hearsay) last(n int) []*paymentv1.CreatePaymentRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*paymentv1.CreatePaymentRequest(nil), h.calls[max(0, len(h.calls)-n):]...)
}

// counts is how often what was told.
func (h *hearsay) counts() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := map[string]int{}
	for _, a := range h.all {
		what := a.reason()
		if what == "" {
			what = a.code.String()
		}
		n[what]++
	}
	return n
}

// caller pays one thing after the other, and does not give up soon.
type caller struct {
	*chaos

	number int
	rng    *rand.Rand
	mine   []*paymentv1.CreatePaymentRequest
}

func (k *caller) run() {
	for n := 0; !closedWithin(k.quit, k.between(10*time.Millisecond, 120*time.Millisecond)); n++ {
		switch dice := k.rng.IntN(100); {
		case dice < 20:
			k.inquire()
		case dice < 30 && len(k.mine) > 0: // as after a crash of his own
			k.call(k.mine[k.rng.IntN(len(k.mine))])
		default:
			k.insist(k.newPayment(n))
		}
	}
}

// between draws a time.
func (k *caller) between(least, most time.Duration) time.Duration {
	return least + time.Duration(k.rng.Int64N(int64(most-least)))
}

// newPayment is one under a new key: of an account with a habit now and then, for
// an order that others pay too half of the time.
func (k *caller) newPayment(n int) *paymentv1.CreatePaymentRequest {
	req := &paymentv1.CreatePaymentRequest{
		IdempotencyKey: fmt.Sprintf("caller-%d-%d", k.number, n), AccountNumber: chaosAccounts[k.rng.IntN(len(chaosAccounts))],
		Amount: 1 + k.rng.Int64N(100_000), ResolutionPolicy: netCancel,
	}
	const share = 4 // payments an order
	if k.rng.IntN(2) == 0 {
		req.OrderId = fmt.Sprintf("basket-%d", k.heard.baskets.Add(1)/share)
	}
	if k.rng.IntN(3) == 0 {
		req.ResolutionPolicy = confirm
	}
	if k.rng.IntN(6) == 0 {
		req.AccountNumber = chaosHabits[k.rng.IntN(len(chaosHabits))]
	}
	k.mine = append(k.mine, req)
	k.heard.noteCall(req)
	return req
}

// chaosAccounts are the accounts without one.
var chaosAccounts = func() (numbers []string) {
	for i := range 20 {
		numbers = append(numbers, fmt.Sprintf("314159265358%02d", i))
	}
	return numbers
}()

// chaosHabits are the accounts with a habit, in a fixed order.
var chaosHabits = []string{
	"00000000000000", "99999999999999", "88888888888888", "77777777777777", "66666666666666", "55555555555555", "44444444444444",
	"33333333333333", "22222222222222",
}

// insist calls until he knows, or has tried often enough.
func (k *caller) insist(req *paymentv1.CreatePaymentRequest) {
	const tries = 6
	for range tries {
		if k.call(req) || closedWithin(k.quit, k.between(20*time.Millisecond, 400*time.Millisecond)) {
			break
		}
	}
	if k.rng.IntN(4) == 0 {
		k.look(req)
	}
}

// call calls once, or on all instances at once, and says whether he knows now.
func (k *caller) call(req *paymentv1.CreatePaymentRequest) (knows bool) {
	posts := k.payments
	if k.rng.IntN(6) != 0 {
		posts = posts[k.rng.IntN(len(posts)):][:1]
	}
	var calls sync.WaitGroup
	answers := make([]told, len(posts))
	for i, p := range posts {
		ctx, end := k.patience()
		calls.Go(func() {
			defer end()
			answers[i] = k.payAt(ctx, p.who(), req)
		})
	}
	calls.Wait()
	for _, a := range answers {
		switch a.code {
		case codes.OK, codes.NotFound, codes.FailedPrecondition:
			knows = true
		default:
		}
	}
	return knows
}

// payAt makes a payment at an instance, and notes what was told.
func (c *chaos) payAt(ctx context.Context, who *instance, req *paymentv1.CreatePaymentRequest) told {
	asked := time.Now()
	a := who.payment.payWith(ctx, c.t, req)
	c.heard.note(heard{rpc: create, key: req.GetIdempotencyKey(), order: req.GetOrderId(), by: who, told: a, asked: asked})
	return a
}

// patience is how long he waits for an answer: long, or he hangs up.
func (k *caller) patience() (ctx context.Context, end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	if k.rng.IntN(6) == 0 {
		hangUp := time.AfterFunc(k.between(time.Millisecond, 400*time.Millisecond), cancel)
		return ctx, func() {
			hangUp.Stop()
			cancel()
		}
	}
	return ctx, cancel
}

// look asks what has become of a payment.
func (k *caller) look(req *paymentv1.CreatePaymentRequest) {
	ctx, end := k.patience()
	defer end()
	who := k.payments[k.rng.IntN(len(k.payments))].who()
	key := &paymentv1.GetPaymentRequest_IdempotencyKey{IdempotencyKey: req.GetIdempotencyKey()}
	asked := time.Now()
	resp, err := who.payment.GetPayment(ctx, &paymentv1.GetPaymentRequest{Key: key})
	a := hear(k.t, err, nil)
	if err == nil {
		a.row = resp.GetTransaction()
	}
	k.heard.note(heard{rpc: get, key: req.GetIdempotencyKey(), by: who, told: a, asked: asked})
}

// inquire asks for a balance.
func (k *caller) inquire() {
	ctx, end := k.patience()
	defer end()
	who := k.payments[k.rng.IntN(len(k.payments))].who()
	k.askAt(ctx, who, chaosAccounts[k.rng.IntN(len(chaosAccounts))])
}

// askAt asks an instance for a balance, and notes what was told.
func (c *chaos) askAt(ctx context.Context, who *instance, number string) {
	asked := time.Now()
	resp, err := who.payment.GetBalance(ctx, &paymentv1.GetBalanceRequest{AccountNumber: number})
	a := hear(c.t, err, nil)
	if err == nil {
		a.row, a.balance = resp.GetTransaction(), resp.GetBalance()
	}
	c.heard.note(heard{rpc: balance, by: who, told: a, number: number, asked: asked})
}
