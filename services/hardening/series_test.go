package hardening

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
)

const (
	// names is how many different names of each kind are sent.
	names = 10_000
	// senders is how many send them at a time.
	senders = 16
)

// series are those that the process shows, without their values.
func (p *process) series(t testing.TB) map[string]bool {
	t.Helper()
	_, page := p.fetch(t, "/metrics", "")
	found := map[string]bool{}
	for line := range strings.Lines(page) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			found[line[:at]] = true
		}
	}
	return found
}

// naming is a call in which a name is of the caller's making.
type naming func(ctx context.Context, conn *grpc.ClientConn, n int) error

// namings are calls with new names for whatever a caller names. What they are
// answered is not the matter here.
var namings = map[string]map[string]naming{
	"payment": {
		"methods and services": func(ctx context.Context, conn *grpc.ClientConn, n int) error {
			return conn.Invoke(ctx, fmt.Sprintf("/gwanmun.evil%d.v1.Service/Method%d", n%7, n), &paymentv1.GetPaymentRequest{}, &paymentv1.GetPaymentResponse{})
		},
		"methods of a service": func(ctx context.Context, conn *grpc.ClientConn, n int) error {
			return conn.Invoke(ctx, fmt.Sprintf("/gwanmun.payment.v1.PaymentService/Pay%d", n), &paymentv1.GetPaymentRequest{}, &paymentv1.GetPaymentResponse{})
		},
		"correlation IDs and payment keys": func(ctx context.Context, conn *grpc.ClientConn, n int) error {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-correlation-id", fmt.Sprintf("correlation-%d", n), "user-agent", fmt.Sprintf("agent-%d", n))
			_, err := paymentv1.NewPaymentServiceClient(conn).GetPayment(ctx, &paymentv1.GetPaymentRequest{
				Key: &paymentv1.GetPaymentRequest_IdempotencyKey{IdempotencyKey: fmt.Sprintf("key-%d", n)},
			})
			return err
		},
		"accounts": func(ctx context.Context, conn *grpc.ClientConn, n int) error {
			_, err := paymentv1.NewAccountServiceClient(conn).GetBalance(ctx, &paymentv1.GetBalanceRequest{AccountNumber: fmt.Sprintf("70%012d", n)})
			return err
		},
	},
	"corebank": {
		"accounts": func(ctx context.Context, conn *grpc.ClientConn, n int) error {
			_, err := simulatorv1.NewSimulatorServiceClient(conn).GetAccount(ctx, &simulatorv1.GetAccountRequest{AccountNumber: fmt.Sprintf("70%012d", n)})
			return err
		},
	},
}

// send makes n calls with as many names, after those that were sent before, some
// at a time.
func send(t testing.TB, p *process, call naming, from, n int) {
	t.Helper()
	conn := p.dial(t)
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	var sending sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			for name := from + i; name < from+n; name += senders {
				if err := call(ctx, conn, name); ctx.Err() != nil {
					t.Errorf("not in time: %v", err)
					return
				}
			}
		})
	}
	sending.Wait()
}

// grows sends a few names, then ten thousand, and fails the test if the latter
// have made a series more than the former.
func grows(t *testing.T, p *process, what string, call naming) {
	t.Helper()
	const few = 5 * senders
	send(t, p, call, 0, few)
	before := p.series(t)
	send(t, p, call, few, names)
	for one := range p.series(t) {
		if !before[one] {
			t.Errorf("%s: %d %s have made %s", p.name, names, what, one)
		}
	}
}

// TestSeries_NoCallerCanMakeThem sends ten thousand names of each kind.
func TestSeries_NoCallerCanMakeThem(t *testing.T) {
	t.Parallel()
	// There is no core: its circuits are open soon, and stay so.
	away := []string{"--core-addr=127.0.0.1:1", "--connect-timeout=100ms", "--retries=0", "--circuit-open-wait=1h"}
	for _, p := range []*process{spawn(t, "payment", append(away, newSQLite(t)...)...), startCore(t)} {
		for what, call := range namings[p.name] {
			grows(t, p, what, call)
		}
	}
}

// TestSeries_ClientsAreThoseOfTheFile shows ten thousand keys that nobody has.
func TestSeries_ClientsAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	p := startCore(t, "--clients-file="+clientsFile(t))
	grows(t, p, "keys", func(ctx context.Context, conn *grpc.ClientConn, n int) error {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-api-key", fmt.Sprintf("key-%d", n))
		_, err := simulatorv1.NewSimulatorServiceClient(conn).GetAccount(ctx, &simulatorv1.GetAccountRequest{AccountNumber: "12345678901234"})
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("an unknown key: %v", err)
		}
		return err
	})
}

// exemplar is a bucket of the round trips of payments that shows a trace.
var exemplar = regexp.MustCompile(`gwanmun_core_roundtrip_seconds_bucket\{[^}]*tx="payment"[^}]*\} \d+ # \{trace_id="[0-9a-f]{32}"\}`)

// TestExemplars_LeadFromARoundTripToItsTrace pays once where everything is
// traced, and once where nothing is.
func TestExemplars_LeadFromARoundTripToItsTrace(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0") // a collector that never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hole.Close() }()
	core := startCore(t)
	for ratio, want := range map[string]bool{"1": true, "0": false} {
		p := spawn(t, "payment", behind(t, core, newSQLite(t),
			"--otlp-endpoint="+hole.Addr().String(), "--trace-ratio="+ratio, "--shutdown-timeout=3s")...)
		_, err := paymentv1.NewPaymentServiceClient(p.dial(t)).CreatePayment(t.Context(), ordinary("exemplar", 0))
		if err != nil {
			t.Fatal(err)
		}
		_, page := p.fetch(t, "/metrics", "application/openmetrics-text; version=1.0.0")
		if got := exemplar.MatchString(page); got != want {
			t.Errorf("traced at a ratio of %s, there is an exemplar: %t, in\n%s", ratio, got,
				strings.Join(regexp.MustCompile(`(?m)^gwanmun_core_roundtrip_seconds_bucket.*$`).FindAllString(page, 40), "\n"))
		}
		if _, plain := p.fetch(t, "/metrics", ""); strings.Contains(plain, "trace_id") {
			t.Error("the plain format shows exemplars, which it does not have")
		}
	}
}
