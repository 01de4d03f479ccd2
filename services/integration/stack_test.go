package integration

import (
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
)

// anywhere makes every service listen on free ports.
var anywhere = []string{"--grpc-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"}

// stack is one core with its book, the wire to it, and one ledger. Payment
// services and reconcilers are added by the test, as many as it needs.
type stack struct {
	db     *database
	book   string
	wire   *wire
	core   *core
	canary *canary
	// unsettled is a transaction that no one but an operator makes final.
	unsettled string
	// lossy says that a payment service was killed while it may have had rows that
	// are written behind their answers.
	lossy bool
	// payments are all payment services that were started on it.
	payments []*payment
}

// newStack starts a core, with these flags, before a ledger.
func newStack(t testing.TB, db *database, coreFlags ...string) *stack {
	t.Helper()
	s := &stack{db: db, book: filepath.Join(scratch(t), "book.db"), canary: &canary{}}
	for number := range habitAccounts {
		s.canary.learn(number)
	}
	t.Cleanup(func() { s.canary.look(t, "the ledger", db.dump(t)) })
	s.startCore(t, coreFlags...)
	s.wire = newWire(t, s.core.address(t, "frame"))
	return s
}

// core is the simulated bank.
type core struct {
	*process

	simulatorv1.SimulatorServiceClient
}

// startCore starts the core on the stack's book, for the first time or again.
func (s *stack) startCore(t testing.TB, flags ...string) {
	t.Helper()
	args := append([]string{"--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:" + s.book}, anywhere...)
	p := spawn(t, s.canary, "corebank", append(args, flags...)...)
	s.core = &core{p, simulatorv1.NewSimulatorServiceClient(p.dial(t))}
	p.awaitReady(t)
	if s.wire != nil {
		s.wire.lead(p.address(t, "frame"))
	}
}

// payment is one payment service.
type payment struct {
	*process

	paymentv1.PaymentServiceClient
	paymentv1.AccountServiceClient
	ledgerv1.LedgerServiceClient
}

// quick are the time limits of a payment service under test. What must end by
// itself ends soon; what must come may take its time: on a loaded machine, with
// several writers on one SQLite file, it does.
var quick = []string{"--read-timeout=2s", "--deadline=12s", "--send-window=10s", "--adopt-margin=200ms"}

// steady keeps the circuits closed: a test that is not about them does not want
// its many failures to be refused.
var steady = []string{"--circuit-window=10000", "--circuit-min-calls=10000"}

// startPayment starts a payment service on the stack, and waits until it is
// ready. Flags that are given replace those of quick.
func (s *stack) startPayment(t testing.TB, flags ...string) *payment {
	t.Helper()
	p := s.spawnPayment(t, flags...)
	p.awaitReady(t)
	return p
}

// spawnPayment is startPayment that waits only until it listens.
func (s *stack) spawnPayment(t testing.TB, flags ...string) *payment {
	t.Helper()
	p := s.spawnProcess(t, "payment", quick, flags)
	conn := p.dial(t)
	service := &payment{
		p, paymentv1.NewPaymentServiceClient(conn), paymentv1.NewAccountServiceClient(conn), ledgerv1.NewLedgerServiceClient(conn),
	}
	s.payments = append(s.payments, service)
	return service
}

// reconciler is one reconciler.
type reconciler struct {
	*process

	reconciliationv1.ReconciliationServiceClient
}

// brisk are the time limits of a reconciler under test.
var brisk = []string{"--read-timeout=1s", "--connect-timeout=1s", "--sweep-interval=500ms"}

// idle makes a reconciler that sweeps only when it starts.
const idle = "--sweep-interval=1h"

// startReconciler starts a reconciler on the stack, and waits until it is ready.
// Flags that are given replace those of brisk.
func (s *stack) startReconciler(t testing.TB, flags ...string) *reconciler {
	t.Helper()
	r := s.spawnReconciler(t, flags...)
	r.awaitReady(t)
	return r
}

// spawnReconciler is startReconciler that waits only until it listens.
func (s *stack) spawnReconciler(t testing.TB, flags ...string) *reconciler {
	t.Helper()
	p := s.spawnProcess(t, "reconciler", brisk, flags)
	return &reconciler{p, reconciliationv1.NewReconciliationServiceClient(p.dial(t))}
}

// spawnProcess starts a service on the stack and waits for nothing.
func (s *stack) spawnProcess(t testing.TB, name string, flags ...[]string) *process {
	t.Helper()
	lists := append([][]string{{"--core-addr=" + s.wire.address}, anywhere, steady, s.db.flags}, flags...)
	return spawn(t, s.canary, name, override(lists...)...)
}

// override is the flags of all lists; of a flag that occurs again the last one
// counts.
func override(lists ...[]string) []string {
	var flags []string
	place := map[string]int{}
	for _, list := range lists {
		for _, flag := range list {
			name := flagName(flag)
			if i, again := place[name]; again {
				flags[i] = flag
				continue
			}
			place[name] = len(flags)
			flags = append(flags, flag)
		}
	}
	return flags
}

func flagName(flag string) string {
	for i := range flag {
		if flag[i] == '=' {
			return flag[:i]
		}
	}
	return flag
}

// dial connects to the gRPC port of a process.
func (p *process) dial(t testing.TB) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(p.address(t, "grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(p.canary.unary(t)), grpc.WithStreamInterceptor(p.canary.stream(t)))
	if err != nil {
		t.Fatalf("connect to %s: %v", p.name, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
