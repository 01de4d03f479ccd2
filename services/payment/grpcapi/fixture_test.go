package grpcapi_test

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	"github.com/gwanmun/gwanmun/services/payment/grpcapi"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// core is a payment.Core that answers every request with one code, or loses the
// answer when the code is empty.
type core struct {
	code   atomic.Value
	frames atomic.Int64
	// hold, if set, is waited for before an answer.
	hold chan struct{}
}

// Admits implements payment.Core.
func (c *core) Admits(corelink.Kind) error { return nil }

// Exchange implements payment.Core.
func (c *core) Exchange(_ context.Context, call corelink.Call) corelink.Result {
	c.frames.Add(1)
	if c.hold != nil {
		<-c.hold
	}
	res := corelink.Result{Sent: corelink.SentAll, SentAt: time.Now()}
	code, _ := c.code.Load().(string)
	if code == "" {
		res.Err = corelink.ErrTimeout
		return res
	}
	b, err := answer(call, code)
	if err == nil {
		err = call.Check(b)
	}
	res.AnsweredAt, res.Answer, res.Err = time.Now(), b, err
	return res
}

func answer(call corelink.Call, code string) ([]byte, error) {
	message := frame.Text{Value: "정상처리"}
	if call.Kind == corelink.Inquiry {
		m, err := telegram.ParseBalanceRequest(call.Frame)
		if err != nil {
			return nil, err
		}
		return telegram.BalanceAnswer{TranID: m.TranID, Balance: 5000, ResponseCode: code, Message: message}.AppendTo(nil)
	}
	m, err := telegram.ParsePaymentRequest(call.Frame)
	if err != nil {
		return nil, err
	}
	return telegram.PaymentAnswer{TranID: m.TranID, ResponseCode: code, Message: message, ApprovalNo: 42}.AppendTo(nil)
}

// gate is the payment service's edge in memory: the real server, interceptors
// and use cases, over a scripted core and a ledger in memory.
type gate struct {
	paymentv1.PaymentServiceClient
	paymentv1.AccountServiceClient

	core   *core
	store  *memstore.Store
	server *rpcserver.Server
}

// openGate serves until the test ends. The core answers with code.
func openGate(t testing.TB, code string) *gate {
	t.Helper()
	g := &gate{core: &core{}, store: memstore.New(time.Now)}
	g.core.code.Store(code)
	hashKey, err := ledger.ParseHashKey("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
	if err != nil {
		t.Fatal(err)
	}
	registry, logger := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	service := payment.New(payment.Options{
		Flags: payment.Flags{
			Deadline: 5 * time.Second, SendWindow: 2 * time.Second, MinDeadline: 100 * time.Millisecond, AdoptMargin: 5 * time.Second, KeyLife: 24 * time.Hour,
		},
		Store: g.store, HashKey: hashKey, Core: g.core, Listings: g.core, Now: time.Now,
		Logger: logger, Registry: registry, Instance: "payment-test",
	})
	listeners := map[string]*bufconn.Listener{"grpc:1": bufconn.Listen(1 << 16), "admin:1": bufconn.Listen(1 << 16)}
	g.server, err = rpcserver.New(rpcserver.Options{
		Flags:  rpcserver.Flags{GRPCAddr: "grpc:1", AdminAddr: "admin:1"},
		Logger: logger, Registry: registry, Ready: g.store.Ping,
		Services: map[string]access.Roles{
			paymentv1.PaymentService_ServiceDesc.ServiceName: access.Of(access.RolePayment),
			paymentv1.AccountService_ServiceDesc.ServiceName: access.Of(access.RolePayment),
		},
		Register: func(r grpc.ServiceRegistrar) { grpcapi.Register(r, service) },
		Listen: func(_ context.Context, _, address string) (net.Listener, error) {
			return listeners[address], nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.serve(t, service, listeners["grpc:1"])
	return g
}

func (g *gate) serve(t testing.TB, service *payment.Service, listener *bufconn.Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.server.Serve(ctx) }()
	conn, err := grpc.NewClient("passthrough:///gate", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	g.PaymentServiceClient, g.AccountServiceClient = paymentv1.NewPaymentServiceClient(conn), paymentv1.NewAccountServiceClient(conn)
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
		stop, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		if err := g.server.Stop(stop); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := service.Drain(stop); err != nil {
			t.Errorf("drain: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// row is the row that the key is bound to.
func (g *gate) row(t *testing.T, key string) ledger.Transaction {
	t.Helper()
	row, err := g.store.GetByKey(context.Background(), "local", ledger.IdempotencyKey(key))
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// good is a request that asks for nothing unusual.
func good() *paymentv1.CreatePaymentRequest {
	return &paymentv1.CreatePaymentRequest{IdempotencyKey: "order-1", AccountNumber: "12345678901234", Amount: 1000}
}
