package gormstore

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// careless is a service that fails with whatever it is given.
type careless struct {
	paymentv1.UnimplementedPaymentServiceServer

	fail func() error
}

func (c *careless) GetPayment(context.Context, *paymentv1.GetPaymentRequest) (*paymentv1.GetPaymentResponse, error) {
	return nil, c.fail()
}

// lines is a log that several goroutines write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// take is what was written since it was last asked.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// What a handler panics with, or fails with, goes through recovery, the mapping of
// errors and the line that each rpc has. The log may tell what a plain text says;
// the caller is told nothing of it.
func TestMasking_NoCallShowsAnAccountNumberOrTheHashKey(t *testing.T) {
	service, log := &careless{}, &lines{}
	client := paymentv1.NewPaymentServiceClient(serve(t, service, log))
	call := func(fail func() error) (answer, logged string) {
		service.fail = fail
		var header, trailer metadata.MD
		_, err := client.GetPayment(t.Context(), &paymentv1.GetPaymentRequest{
			Key: &paymentv1.GetPaymentRequest_TransactionId{TransactionId: "GWMNU20260725000000001"},
		}, grpc.Header(&header), grpc.Trailer(&trailer))
		return fmt.Sprint(err, status.Convert(err).Proto(), header, trailer), log.take()
	}
	failures := map[string]func(v any) func() error{
		"a panic": func(v any) func() error { return func() error { panic(v) } },
		"a panic of a text": func(v any) func() error {
			return func() error { panic(fmt.Sprintf("no %v %+v %#v", v, v, v)) }
		},
		"an error": func(v any) func() error { return func() error { return fmt.Errorf("get %v: %+v", v, v) } },
	}
	for name, failure := range failures {
		for _, w := range []databaseWay{
			{way{"the answer to " + name, func(_ *canary, v any) string { answer, _ := call(failure(v)); return answer }}, false},
			{way{"the log of " + name, func(_ *canary, v any) string { _, logged := call(failure(v)); return logged }}, true},
		} {
			t.Run(w.name, func(t *testing.T) { tryWay(t, w.way, w.shows) })
		}
	}
}

// serve serves the service in memory as the binaries do, until the test ends.
func serve(t *testing.T, service *careless, log *lines) *grpc.ClientConn {
	t.Helper()
	rpc, admin := bufconn.Listen(1<<20), bufconn.Listen(1<<20)
	server, err := rpcserver.New(rpcserver.Options{
		Flags:    rpcserver.Flags{GRPCAddr: "grpc:1", AdminAddr: "admin:1"},
		Logger:   telemetry.NewLogger(log, slog.LevelDebug, "payment"),
		Registry: telemetry.NewRegistry(),
		Ready:    func(context.Context) error { return nil },
		Register: func(r grpc.ServiceRegistrar) { paymentv1.RegisterPaymentServiceServer(r, service) },
		Services: map[string]access.Roles{paymentv1.PaymentService_ServiceDesc.ServiceName: access.Of(access.RolePayment)},
		Listen: func(_ context.Context, _, address string) (net.Listener, error) {
			if address == "grpc:1" {
				return rpc, nil
			}
			return admin, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	serving, endServing := context.WithCancel(context.Background())
	go func() { served <- server.Serve(serving) }()
	conn, err := grpc.NewClient("passthrough:///edge", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return rpc.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		endServing()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return conn
}
