package resolve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testFlags are the defaults of the binary.
func testFlags() Flags {
	return Flags{
		SweepInterval: 5 * time.Second, MaxAttempts: 10, CoreFences: true,
		LateWindow: 10 * time.Minute, Lease: 30 * time.Second,
	}
}

var payment = ledger.Actor{Name: ledger.ActorPayment, Instance: "payment-test"}

// house is a ledger, a core and a resolver between them.
type house struct {
	*Resolver
	store    ledger.Store
	core     *scriptedCore
	registry *prometheus.Registry
	logs     *logBook
}

// newHouse builds one whose ledger is under store; nil is an empty memstore.
func newHouse(store ledger.Store, flags Flags, now func() time.Time) *house {
	if store == nil {
		store = memstore.New(now)
	}
	h := &house{
		store: store, registry: prometheus.NewRegistry(), logs: &logBook{},
		core: &scriptedCore{answer: says("01", "01")},
	}
	h.Resolver = newResolver(h.store, h.core, flags, now, h.logs, h.registry)
	return h
}

// Of rows never asked about, the tests' resolver has so many in hand, and so many
// of those at the core.
const (
	workers   = 36
	atTheCore = 9
)

// sweep is one pass along every lane.
func (h *house) sweep(ctx context.Context) { sweepOnce(ctx, h.Resolver) }

func sweepOnce(ctx context.Context, r *Resolver) {
	for _, l := range r.lanes {
		r.sweep(ctx, l)
	}
}

func newResolver(store ledger.Store, core Core, flags Flags, now func() time.Time, logs slog.Handler, registry prometheus.Registerer) *Resolver {
	return New(store, core, Options{
		Flags: flags, ExchangeTime: 5 * time.Second, ReadTimeout: 3 * time.Second, Connections: 16, StopGrace: 7 * time.Second,
		Instance: "reconciler-test", Logger: slog.New(logs), Registry: registry,
		Now: now, Random: rand.Float64,
	})
}

// metric is the value of a counter or gauge, summed over its labels.
func (h *house) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		sum := 0.0
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		return sum
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// unknown is a row to be put into a ledger.
type unknown struct {
	number   int64
	policy   ledger.Policy // 0 is NET_CANCEL
	unsent   bool          // no sent_at, as when the process died
	decided  bool
	attempts int
	notFound int
}

// put stores an UNKNOWN payment that was sent now.
func put(t *testing.T, store ledger.Store, now func() time.Time, u unknown) tranid.ID {
	t.Helper()
	ctx := t.Context()
	id := request(t, store, now, u)
	change := ledger.Change{
		ID: id, From: ledger.StatusRequested, To: ledger.StatusUnknown,
		Reason: "no answer in time", SentAt: now(), Elapsed: 3 * time.Second, By: payment,
	}
	if u.unsent {
		change.SentAt = time.Time{}
	}
	_, err := store.Transition(ctx, change)
	must(t, err)
	if u.decided {
		_, err := store.Decide(ctx, id, payment, "decided before")
		must(t, err)
	}
	for i := range max(u.attempts, u.notFound) {
		claim, err := store.ClaimOne(ctx, id, time.Minute, payment)
		must(t, err)
		must(t, store.Postpone(ctx, ledger.Postponement{
			ID: id, Token: claim.Token, Answered: i < u.attempts, NotFound: i < u.notFound, By: payment,
		}))
	}
	return id
}

// request stores a REQUESTED payment.
func request(t *testing.T, store ledger.Store, now func() time.Time, u unknown) tranid.ID {
	t.Helper()
	id := tranid.New(tranid.DateOf(now()), u.number)
	if u.policy == 0 {
		u.policy = ledger.PolicyNetCancel
	}
	_, err := store.CreateIntent(t.Context(), ledger.Intent{
		ID: id, Client: "local", Key: ledger.IdempotencyKey(fmt.Sprintf("key-%d", u.number)),
		AccountMasked: "123456****1234", Amount: 1000, Policy: u.policy,
		RequestedAt: now(), AdoptAfter: 12 * time.Second, KeyLife: time.Hour, By: payment, CorrelationID: fmt.Sprintf("corr-%d", u.number),
	})
	must(t, err)
	return id
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, store ledger.Store, id tranid.ID) ledger.Transaction {
	t.Helper()
	row, err := store.Get(t.Context(), id)
	must(t, err)
	return row
}

// answering is what a scriptedCore makes of a request.
type answering func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result

// scriptedCore is a Core that answers as it is told, and remembers the frames.
type scriptedCore struct {
	mu     sync.Mutex
	answer answering
	frames []string // "0400 <id>"
}

// Exchange implements Core. A request that was not sent is not remembered.
func (c *scriptedCore) Exchange(ctx context.Context, call corelink.Call) corelink.Result {
	if call.AnswerLength != telegram.AnswerLength || call.Deadline.IsZero() || len(call.Frame) != telegram.RequestLength {
		panic("a call without its bounds")
	}
	mti, id := telegram.MTI(call.Frame), tranid.ID(call.Frame[4:4+tranid.Length])
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	res := answer(ctx, call, mti, id)
	if res.Sent != corelink.SentNone {
		c.mu.Lock()
		c.frames = append(c.frames, mti+" "+string(id))
		c.mu.Unlock()
	}
	return res
}

func (c *scriptedCore) answers(a answering) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = a
}

// count is how many frames of a type came for a transaction; empty is any.
func (c *scriptedCore) count(mti string, id tranid.ID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, f := range c.frames {
		if (mti == "" || f[:4] == mti) && (id == "" || f[5:] == string(id)) {
			n++
		}
	}
	return n
}

func (c *scriptedCore) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frames)
}

// delivered is the exchange whose answer are these bytes.
func delivered(call corelink.Call, answer []byte) corelink.Result {
	res := corelink.Result{Sent: corelink.SentAll, Answer: answer}
	if err := call.Check(answer); err != nil {
		res.Err = fmt.Errorf("%w: %w", corelink.ErrGarbage, err)
	}
	return res
}

func answer0410(id tranid.ID, processed, code string) []byte {
	b, err := telegram.StatusAnswer{TranID: id, Processed: processed, ResponseCode: code, Message: frame.Text{Value: "조회"}}.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return b
}

func answer0430(id tranid.ID, result, code string) []byte {
	b, err := telegram.CancelAnswer{TranID: id, CancelResult: result, ResponseCode: code, Message: frame.Text{Value: "취소"}}.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// says answers every 0400 and every 0420 with these flags.
func says(processed, cancelResult string) answering {
	return func(_ context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
		if mti == telegram.StatusRequestMTI {
			return delivered(call, answer0410(id, processed, frame.Done))
		}
		return delivered(call, answer0430(id, cancelResult, frame.Done))
	}
}

// refused is a core that nobody listens at.
func refused(context.Context, corelink.Call, string, tranid.ID) corelink.Result {
	return corelink.Result{Sent: corelink.SentNone, Err: fmt.Errorf("%w: refused", corelink.ErrConnect)}
}

// silent is a core that takes requests and never answers: only in a bubble.
func silent(ctx context.Context, call corelink.Call, _ string, _ tranid.ID) corelink.Result {
	timer := time.NewTimer(min(time.Until(call.Deadline), 3*time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
		return corelink.Result{Sent: corelink.SentAll, Err: corelink.ErrTimeout}
	case <-ctx.Done():
		return corelink.Result{Sent: corelink.SentAll, Err: fmt.Errorf("%w: %w", corelink.ErrAbandoned, ctx.Err())}
	}
}

// closed is a core that closes the connection instead of answering.
func closed(context.Context, corelink.Call, string, tranid.ID) corelink.Result {
	return corelink.Result{Sent: corelink.SentAll, Err: corelink.ErrClosed}
}

// logBook keeps what was logged.
type logBook struct {
	mu    sync.Mutex
	lines []slog.Record
}

func (l *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logBook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logBook) WithGroup(string) slog.Handler            { return l }
func (l *logBook) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r)
	return nil
}

// count is how many lines of a level had this message.
func (l *logBook) count(level slog.Level, message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, r := range l.lines {
		if r.Level == level && r.Message == message {
			n++
		}
	}
	return n
}

// faultyStore is a ledger some of whose methods are replaced.
type faultyStore struct {
	ledger.Store
	adopt       func(context.Context, int, ledger.Actor) (int, error)
	claim       func(context.Context, ledger.ClaimOptions) ([]ledger.Claim, error)
	decide      func(context.Context, tranid.ID, ledger.Actor, string) (ledger.Transaction, error)
	transition  func(context.Context, ledger.Change) (ledger.Transaction, error)
	appendEvent func(context.Context, tranid.ID, ledger.Evidence, ledger.Actor, string) error
	postpone    func(context.Context, ledger.Postponement) error
	ping        func(context.Context) error
}

func (f *faultyStore) Adopt(ctx context.Context, limit int, by ledger.Actor) (int, error) {
	if f.adopt != nil {
		return f.adopt(ctx, limit, by)
	}
	return f.Store.Adopt(ctx, limit, by)
}

func (f *faultyStore) Claim(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
	if f.claim != nil {
		return f.claim(ctx, o)
	}
	return f.Store.Claim(ctx, o)
}

func (f *faultyStore) Decide(ctx context.Context, id tranid.ID, by ledger.Actor, detail string) (ledger.Transaction, error) {
	if f.decide != nil {
		return f.decide(ctx, id, by, detail)
	}
	return f.Store.Decide(ctx, id, by, detail)
}

func (f *faultyStore) Transition(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
	if f.transition != nil {
		return f.transition(ctx, c)
	}
	return f.Store.Transition(ctx, c)
}

func (f *faultyStore) AppendEvent(ctx context.Context, id tranid.ID, e ledger.Evidence, by ledger.Actor, detail string) error {
	if f.appendEvent != nil {
		return f.appendEvent(ctx, id, e, by, detail)
	}
	return f.Store.AppendEvent(ctx, id, e, by, detail)
}

func (f *faultyStore) Postpone(ctx context.Context, p ledger.Postponement) error {
	if f.postpone != nil {
		return f.postpone(ctx, p)
	}
	return f.Store.Postpone(ctx, p)
}

func (f *faultyStore) Ping(ctx context.Context) error {
	if f.ping != nil {
		return f.ping(ctx)
	}
	return f.Store.Ping(ctx)
}

var errTest = errors.New("planned by the test")
