package hardening

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

const (
	// measuredVariable makes this test binary a server that is measured: "bare" or
	// "house".
	measuredVariable = "GWANMUN_HARDENING_MEASURED"
	// inFlight is how many calls are under way, over so many connections.
	inFlight, overConnections = 10_000, 10
	// mostTimes is how many times the memory of a bare server that may cost.
	mostTimes = 1.2
)

// usage is what a server holds.
type usage struct {
	Heap, Stack uint64
	Goroutines  int
	Calls       int64
}

func (u usage) memory() float64 { return float64(u.Heap + u.Stack) }

// waiting is a service whose calls do not end by themselves.
type waiting struct {
	paymentv1.UnimplementedPaymentServiceServer
	begun chan struct{}
}

// CreatePayment waits until its caller hangs up.
func (w *waiting) CreatePayment(ctx context.Context, _ *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
	w.begun <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// beMeasured serves until stdin ends, and writes what it holds for each line of it:
// a number of calls, for which it waits first.
func beMeasured(kind string) int {
	logger := telemetry.NewLogger(os.Stderr, slog.LevelInfo, kind)
	service := &waiting{begun: make(chan struct{}, inFlight)}
	if err := serveMeasured(kind, logger, service); err != nil {
		logger.Error("not served", "error", err)
		return 1
	}
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var u usage
		if _, err := fmt.Sscan(lines.Text(), &u.Calls); err != nil {
			return 1
		}
		for range u.Calls {
			<-service.begun
		}
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		u.Heap, u.Stack, u.Goroutines = m.HeapAlloc, m.StackInuse, runtime.NumGoroutine()
		if out.Encode(u) != nil {
			return 1
		}
	}
	return 0
}

// serveMeasured serves in the background, and logs where. The bare server has the
// product's limits and nothing else.
func serveMeasured(kind string, logger *slog.Logger, service *waiting) error {
	if kind == "bare" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := grpc.NewServer(grpc.MaxRecvMsgSize(64<<10), grpc.MaxHeaderListSize(16<<10), grpc.MaxConcurrentStreams(1024),
			grpc.KeepaliveParams(keepalive.ServerParameters{}), grpc.WaitForHandlers(true))
		paymentv1.RegisterPaymentServiceServer(server, service)
		go func() { _ = server.Serve(listener) }()
		logger.Info("listening", "name", "grpc", "address", listener.Addr().String())
		return nil
	}
	server, err := rpcserver.New(rpcserver.Options{
		Flags:  rpcserver.Flags{GRPCAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"},
		Logger: logger, Registry: telemetry.NewRegistry(),
		Ready:    func(context.Context) error { return nil },
		Services: map[string]access.Roles{paymentv1.PaymentService_ServiceDesc.ServiceName: access.Of(access.RolePayment)},
		Register: func(r grpc.ServiceRegistrar) { paymentv1.RegisterPaymentServiceServer(r, service) },
	})
	if err != nil {
		return err
	}
	if err := server.Listen(context.Background()); err != nil {
		return err
	}
	go func() { _ = server.Serve(context.Background()) }()
	return nil
}

// measure starts a server, has this many calls under way, and returns what it held
// before and what then.
func measure(t *testing.T, kind string, calls int) (before, then usage) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{measuredVariable + "=" + kind}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := spawnCommand(t, kind, cmd)
	answers := json.NewDecoder(out)
	ask := func(calls int) (u usage) {
		if _, err := fmt.Fprintln(in, calls); err != nil {
			t.Fatal(err)
		}
		if err := answers.Decode(&u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	request := framed(t, ordinary("in-flight", 0))
	var conns []*rawConn
	for range overConnections { // they stand before it is measured
		c := p.raw(t)
		defer func() { _ = c.Close() }()
		conns = append(conns, c)
		callOn(t, c, request)
	}
	before = ask(overConnections)
	for range calls/overConnections - 1 {
		for _, c := range conns {
			callOn(t, c, request)
		}
	}
	then = ask(calls - overConnections)
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	p.wait(t)
	return before, then
}

// callOn begins a call, and reads nothing.
func callOn(t *testing.T, c *rawConn, request []byte) {
	t.Helper()
	err := c.open(fields(paymentv1.PaymentService_CreatePayment_FullMethodName))
	if err == nil {
		err = c.framer.WriteData(c.last, true, request)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// framed is a message as a call carries it.
func framed(t *testing.T, m proto.Message) []byte {
	t.Helper()
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(wire))), wire...)
}

// TestMemory_OfCallsInFlight compares what ten thousand calls cost the product's
// edge with what they cost a bare gRPC server.
func TestMemory_OfCallsInFlight(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector it would be measured, and not the server: make bench-memory")
	}
	cost := map[string]float64{}
	for _, kind := range []string{"bare", "house"} {
		before, then := measure(t, kind, inFlight)
		cost[kind] = (then.memory() - before.memory()) / float64(inFlight-overConnections)
		t.Logf("%s: idle %.1f MB; a call %.0f bytes, of them stack %.0f; goroutines %.3f a call", kind, before.memory()/1e6, cost[kind],
			float64(then.Stack-before.Stack)/float64(inFlight-overConnections),
			float64(then.Goroutines-before.Goroutines)/float64(inFlight-overConnections))
	}
	if times := cost["house"] / cost["bare"]; times > mostTimes {
		t.Errorf("a call in flight costs %.2f times what it costs a bare server", times)
	} else {
		t.Logf("%.2f times", times)
	}
}
