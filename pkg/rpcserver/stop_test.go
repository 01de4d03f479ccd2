package rpcserver_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// stopWithin stops e and returns Stop's error and how long it took.
func (e *edge) stopWithin(bound time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	began := time.Now()
	err := e.Stop(ctx)
	return time.Since(began), err
}

func TestStop_OfAnIdleServerIsImmediateAndClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, echo(), nil)
		each(t, e)
		took, err := e.stopWithin(5 * time.Second)
		if err != nil || took > time.Millisecond {
			t.Errorf("Stop took %s: %v", took, err)
		}
		if _, again := e.stopWithin(time.Second); again != nil {
			t.Errorf("a second Stop: %v", again)
		}
	})
}

// Serve returns without stopping: what runs then goes on until Stop, which
// waits for it; what comes then is refused.
func TestStop_WaitsForWhatRunsAndRefusesWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := echo()
		p.create = func(ctx context.Context, _ *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
			time.Sleep(3 * time.Second)
			return &paymentv1.CreatePaymentResponse{Replayed: true}, ctx.Err()
		}
		e := newEdge(t, p, nil)
		paid := make(chan error, 1)
		go func() {
			_, err := e.payments().CreatePayment(context.Background(), good())
			paid <- err
		}()
		time.Sleep(time.Second)
		e.endServing()
		if err := <-e.served; err != nil {
			t.Errorf("Serve returned %v", err)
		}
		e.served <- nil // for the cleanup

		stopped := make(chan error, 1)
		go func() {
			_, err := e.stopWithin(10 * time.Second)
			stopped <- err
		}()
		time.Sleep(time.Second)
		if code, body := e.fetch(t, "GET", "/readyz"); code != 503 || body != "stopping\n" {
			t.Errorf("readyz is %d %q while it stops", code, body)
		}
		if code, _ := e.fetch(t, "GET", "/livez"); code != 200 {
			t.Errorf("livez is %d while it stops", code)
		}
		late := paymentv1.NewPaymentServiceClient(e.dial(t))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := late.CreatePayment(ctx, good()); err == nil {
			t.Error("a call that comes while it stops is served")
		}
		select {
		case err := <-stopped:
			t.Errorf("Stop did not wait: %v", err)
		default:
		}
		if err := <-paid; err != nil {
			t.Errorf("the running call ended with %v", err)
		}
		if err := <-stopped; err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
}

// Those who watch are told, and hold up nothing.
func TestStop_EndsTheStreamsOfWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := echo()
		p.watch = func(_ *paymentv1.WatchPaymentRequest, stream grpc.ServerStreamingServer[paymentv1.WatchPaymentResponse]) error {
			select {
			case <-rpcserver.Stopping(stream.Context()):
				return status.Error(codes.Unavailable, "watch again elsewhere")
			case <-stream.Context().Done():
				return stream.Context().Err()
			}
		}
		e := newEdge(t, p, nil)
		watch, err := e.payments().WatchPayment(t.Context(), goodWatch())
		if err != nil {
			t.Fatal(err)
		}
		health, err := grpc_health_v1.NewHealthClient(e.conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		reflection, err := grpc_reflection_v1.NewServerReflectionClient(e.conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		took, err := e.stopWithin(5 * time.Second)
		if err != nil || took > 150*time.Millisecond {
			t.Errorf("Stop took %s: %v", took, err)
		}
		var seen []string
		for {
			resp, err := health.Recv()
			if err != nil {
				wantUnavailable(t, "health", err)
				break
			}
			seen = append(seen, resp.GetStatus().String())
		}
		if last := seen[len(seen)-1]; last != "NOT_SERVING" {
			t.Errorf("the watcher of health saw %v", seen)
		}
		_, err = watch.Recv()
		wantUnavailable(t, "payment", err)
		_, err = reflection.Recv()
		wantUnavailable(t, "reflection", err)
	})
}

func wantUnavailable(t *testing.T, what string, err error) {
	t.Helper()
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the stream of %s ended with %v", what, err)
	}
}

// hangs is a service whose calls end when the test says so: a hung one whatever
// its context says, the others when it ends.
func hangs(release <-chan struct{}) *payments {
	return &payments{
		create: func(context.Context, *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
			<-release
			return nil, errors.New("released")
		},
		watch: func(_ *paymentv1.WatchPaymentRequest, stream grpc.ServerStreamingServer[paymentv1.WatchPaymentResponse]) error {
			<-stream.Context().Done()
			return stream.Context().Err()
		},
	}
}

func TestStop_CutsWhatHangsWithinTheBoundAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := newEdge(t, hangs(release), nil)
		t.Cleanup(func() { close(release); synctest.Wait() })
		ended := make(chan error, 3)
		for range 2 {
			go func() {
				_, err := e.payments().CreatePayment(context.Background(), good())
				ended <- err
			}()
		}
		watch, err := e.payments().WatchPayment(t.Context(), goodWatch())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		took, err := e.stopWithin(4 * time.Second)
		if took > 4*time.Second {
			t.Errorf("Stop took %s, bound by 4s", took)
		}
		const want = "cut what was still running: gwanmun.payment.v1.PaymentService/CreatePayment (2), " +
			"gwanmun.payment.v1.PaymentService/WatchPayment (1)"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Stop says %v, want %s", err, want)
		}
		if _, err := watch.Recv(); err == nil {
			t.Error("the stream goes on")
		}
		for range 2 {
			if err := <-ended; err == nil {
				t.Error("a call that was cut succeeded")
			}
		}
	})
}

// What notices that it was cut is waited for, within the bound.
func TestStop_WaitsForWhatNoticesTheCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := echo()
		ended := make(chan time.Time, 1)
		p.create = func(ctx context.Context, _ *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
			<-ctx.Done()
			time.Sleep(200 * time.Millisecond) // puts things in order
			ended <- time.Now()
			return nil, ctx.Err()
		}
		e := newEdge(t, p, nil)
		go func() { _, _ = e.payments().CreatePayment(context.Background(), good()) }()
		synctest.Wait()
		took, err := e.stopWithin(10 * time.Second)
		if err == nil || took != 9700*time.Millisecond {
			t.Errorf("Stop took %s (want 9.7s): %v", took, err)
		}
		select {
		case <-ended:
		default:
			t.Error("Stop returned before the handler")
		}
	})
}

func TestStop_WithoutServeReleasesTheListeners(t *testing.T) {
	server, err := rpcserver.New(options())
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	grpcAddr, adminAddr := server.GRPCAddr().String(), server.AdminAddr().String()
	if err := server.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for _, address := range []string{grpcAddr, adminAddr} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Errorf("%s is still taken: %v", address, err)
			continue
		}
		_ = listener.Close()
	}
	unused, err := rpcserver.New(options())
	if err != nil {
		t.Fatal(err)
	}
	if err := unused.Stop(t.Context()); err != nil {
		t.Errorf("Stop before Listen: %v", err)
	}
}

// options are those of a server on free ports of this machine.
func options() rpcserver.Options {
	return rpcserver.Options{
		Flags:    rpcserver.Flags{GRPCAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"},
		Logger:   telemetry.NewLogger(&logLines{}, slog.LevelInfo, "payment"),
		Registry: telemetry.NewRegistry(),
		Ready:    func(context.Context) error { return nil },
		Services: roles,
		Register: func(r grpc.ServiceRegistrar) { ledgerv1.RegisterLedgerServiceServer(r, echo()) },
	}
}

func TestListen_LogsWhereAndLetsGoOfOneWhenTheOtherIsTaken(t *testing.T) {
	o := options()
	log := &logLines{}
	o.Logger = telemetry.NewLogger(log, slog.LevelInfo, "payment")
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	o.Flags.AdminAddr = taken.Addr().String()
	server, err := rpcserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	err = server.Listen(t.Context())
	if err == nil || !strings.Contains(err.Error(), "listen for admin") {
		t.Errorf("Listen says %v", err)
	}
	line := log.one(t, "listening")
	if line["name"] != "grpc" || line["address"] != server.GRPCAddr().String() {
		t.Errorf("the log says %v", line)
	}
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.GRPCAddr().String()); err == nil {
		_ = conn.Close()
		t.Error("the port of gRPC is still open")
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServe_ReturnsWhenAListenerFails(t *testing.T) {
	for _, which := range []string{"grpc", "admin"} {
		t.Run(which, func(t *testing.T) {
			e := newEdge(t, echo(), nil)
			each(t, e) // it serves
			if which == "grpc" {
				_ = e.grpc.Close()
			} else {
				_ = e.admin.Close()
			}
			if err := <-e.served; err == nil || !strings.Contains(err.Error(), "serve "+which) {
				t.Errorf("Serve returned %v", err)
			}
			e.served <- nil // for the cleanup
		})
	}
}

func TestNew_RefusesARegistryThatIsTaken(t *testing.T) {
	o := options()
	first, err := rpcserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Stop(t.Context()) }()
	if _, err := rpcserver.New(o); err == nil {
		t.Error("two servers share one registry")
	}
}
