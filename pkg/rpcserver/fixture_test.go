package rpcserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// payments is a service whose handlers are the test's.
type payments struct {
	paymentv1.UnimplementedPaymentServiceServer
	ledgerv1.UnimplementedLedgerServiceServer

	create func(context.Context, *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error)
	get    func(context.Context, *paymentv1.GetPaymentRequest) (*paymentv1.GetPaymentResponse, error)
	watch  func(*paymentv1.WatchPaymentRequest, grpc.ServerStreamingServer[paymentv1.WatchPaymentResponse]) error
}

func (p *payments) CreatePayment(ctx context.Context, req *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
	return p.create(ctx, req)
}

func (p *payments) GetPayment(ctx context.Context, req *paymentv1.GetPaymentRequest) (*paymentv1.GetPaymentResponse, error) {
	return p.get(ctx, req)
}

func (p *payments) WatchPayment(req *paymentv1.WatchPaymentRequest, stream grpc.ServerStreamingServer[paymentv1.WatchPaymentResponse]) error {
	return p.watch(req, stream)
}

// good is a request that passes validation.
func good() *paymentv1.CreatePaymentRequest {
	return &paymentv1.CreatePaymentRequest{IdempotencyKey: "key-1", AccountNumber: "12345678901234", Amount: 1}
}

// goodWatch is a request that passes validation.
func goodWatch() *paymentv1.WatchPaymentRequest {
	return &paymentv1.WatchPaymentRequest{TransactionId: "GWMNU20260102000000123"}
}

// edge is a server under test and what is needed to look at it.
type edge struct {
	*rpcserver.Server

	grpc, admin *bufconn.Listener
	log         *logLines
	registry    *prometheus.Registry
	conn        *grpc.ClientConn
	served      chan error // what Serve returned
	endServing  context.CancelFunc
}

// roles are those of the services of payments.
var roles = map[string]access.Roles{
	paymentv1.PaymentService_ServiceDesc.ServiceName: access.Of(access.RolePayment),
	ledgerv1.LedgerService_ServiceDesc.ServiceName:   access.Of(access.RolePayment, access.RoleOps),
}

// newEdge serves p in memory until the test ends. ready may be nil.
func newEdge(t *testing.T, p *payments, ready func(context.Context) error) *edge {
	t.Helper()
	return newEdgeWith(t, p, ready, rpcserver.Flags{})
}

func newEdgeWith(t *testing.T, p *payments, ready func(context.Context) error, flags rpcserver.Flags) *edge {
	t.Helper()
	if ready == nil {
		ready = func(context.Context) error { return nil }
	}
	return serveEdge(t, rpcserver.Options{
		Flags: flags,
		Ready: ready,
		Register: func(r grpc.ServiceRegistrar) {
			paymentv1.RegisterPaymentServiceServer(r, p)
			ledgerv1.RegisterLedgerServiceServer(r, p)
		},
		Services: roles,
	})
}

// serveEdge serves in memory until the test ends.
func serveEdge(t testing.TB, o rpcserver.Options) *edge {
	t.Helper()
	e := &edge{
		grpc: bufconn.Listen(1 << 20), admin: bufconn.Listen(1 << 20),
		log: &logLines{}, registry: telemetry.NewRegistry(), served: make(chan error, 1),
	}
	o.Flags.GRPCAddr, o.Flags.AdminAddr = "grpc:1", "admin:1"
	o.Logger, o.Registry = telemetry.NewLogger(e.log, slog.LevelDebug, "payment"), e.registry
	o.Listen = func(_ context.Context, _, address string) (net.Listener, error) {
		if address == "grpc:1" {
			return e.grpc, nil
		}
		return e.admin, nil
	}
	server, err := rpcserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	e.Server = server
	if err := e.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.endServing = cancel
	go func() { e.served <- e.Serve(ctx) }()
	e.conn = e.dial(t)
	t.Cleanup(func() {
		cancel()
		_ = e.conn.Close()
		stop, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		_ = e.Stop(stop) // tests that care have stopped it before
		if err := <-e.served; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	return e
}

func (e *edge) dial(t testing.TB, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return e.grpc.DialContext(ctx) }))
	conn, err := grpc.NewClient("passthrough:///edge", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (e *edge) payments() paymentv1.PaymentServiceClient {
	return paymentv1.NewPaymentServiceClient(e.conn)
}

// fetch asks the admin port and returns status and body.
func (e *edge) fetch(t *testing.T, method, path string, header ...string) (int, string) {
	t.Helper()
	code, _, body := e.ask(t, method, path, header...)
	return code, body
}

// headers are those of what the admin port answers.
func (e *edge) headers(t *testing.T, path string) http.Header {
	t.Helper()
	_, headers, _ := e.ask(t, http.MethodGet, path)
	return headers
}

func (e *edge) ask(t *testing.T, method, path string, header ...string) (int, http.Header, string) {
	t.Helper()
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return e.admin.DialContext(ctx) },
		DisableKeepAlives: true,
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://admin"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// logLines keeps what is logged.
type logLines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logLines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// of are the lines of one event, as objects.
func (l *logLines) of(t *testing.T, event string) []map[string]any {
	t.Helper()
	var found []map[string]any
	lines := bufio.NewScanner(strings.NewReader(l.text()))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line map[string]any
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%v in line %q", err, lines.Text())
		}
		if line["msg"] == event {
			found = append(found, line)
		}
	}
	return found
}

// one is the only line of an event.
func (l *logLines) one(t *testing.T, event string) map[string]any {
	t.Helper()
	found := l.of(t, event)
	if len(found) != 1 {
		t.Fatalf("%d lines of %q, want 1, in:\n%s", len(found), event, l.text())
	}
	return found[0]
}

// info is our ErrorInfo in an error; empty if there is none.
func info(err error) *errdetails.ErrorInfo { return detail[*errdetails.ErrorInfo](err) }

func detail[T any](err error) T {
	var none T
	for _, d := range status.Convert(err).Details() {
		if found, ok := d.(T); ok {
			return found
		}
	}
	return none
}
