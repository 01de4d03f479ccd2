package rpcserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	circuitv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/circuit/v1"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
)

// contracts are all services, none of which does anything.
func contracts(r grpc.ServiceRegistrar) {
	paymentv1.RegisterPaymentServiceServer(r, paymentv1.UnimplementedPaymentServiceServer{})
	paymentv1.RegisterAccountServiceServer(r, paymentv1.UnimplementedAccountServiceServer{})
	ledgerv1.RegisterLedgerServiceServer(r, ledgerv1.UnimplementedLedgerServiceServer{})
	circuitv1.RegisterCircuitServiceServer(r, circuitv1.UnimplementedCircuitServiceServer{})
	reconciliationv1.RegisterReconciliationServiceServer(r, reconciliationv1.UnimplementedReconciliationServiceServer{})
	reconciliationv1.RegisterCallbackServiceServer(r, reconciliationv1.UnimplementedCallbackServiceServer{})
	simulatorv1.RegisterSimulatorServiceServer(r, simulatorv1.UnimplementedSimulatorServiceServer{})
}

// descriptions are those of contracts.
var descriptions = []*grpc.ServiceDesc{
	&paymentv1.PaymentService_ServiceDesc, &paymentv1.AccountService_ServiceDesc, &ledgerv1.LedgerService_ServiceDesc,
	&circuitv1.CircuitService_ServiceDesc, &reconciliationv1.ReconciliationService_ServiceDesc,
	&reconciliationv1.CallbackService_ServiceDesc, &simulatorv1.SimulatorService_ServiceDesc,
}

// openEdge serves all contracts in memory until the fuzzing ends.
func openEdge(f *testing.F) *edge {
	f.Helper()
	served := map[string]access.Roles{}
	for _, d := range descriptions {
		served[d.ServiceName] = access.Of(access.RolePayment)
	}
	return serveEdge(f, rpcserver.Options{Register: contracts, Services: served, Ready: func(context.Context) error { return nil }})
}

// goodLines fails the test if something that was logged is no line of JSON, and
// forgets it.
func (l *logLines) goodLines(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	text := l.all.String()
	l.all.Reset()
	l.mu.Unlock()
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) || len(line) > 4<<10 {
			t.Errorf("the log has the line %q", line)
		}
	}
}

// Whatever the bytes of a request are, it is answered, and never as a fault of
// ours.
func FuzzRequest_IsAnsweredAsItsCallersFault(f *testing.F) {
	e := openEdge(f)
	var paths []string
	for _, d := range descriptions {
		for _, m := range d.Methods {
			paths = append(paths, fmt.Sprintf("/%s/%s", d.ServiceName, m.MethodName))
		}
	}
	valid, err := proto.Marshal(good())
	if err != nil {
		f.Fatal(err)
	}
	for i := range paths {
		f.Add(byte(i), valid)
		f.Add(byte(i), []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
		f.Add(byte(i), []byte("\x0a\x16GWMNU20260102000000123"))
	}
	f.Fuzz(func(t *testing.T, method byte, request []byte) {
		path := paths[int(method)%len(paths)]
		var answer []byte
		err := e.conn.Invoke(t.Context(), path, request, &answer, grpc.ForceCodecV2(rawCodec{}))
		switch status.Code(err) {
		case codes.InvalidArgument, codes.Unimplemented: // the latter by the handler, which is none
		case codes.ResourceExhausted:
			if len(request) < 64<<10 {
				t.Errorf("%s with %x: %v", path, request, err)
			}
		default:
			t.Errorf("%s with %x: %v", path, request, err)
		}
		e.log.goodLines(t)
	})
}

// Whatever comes on a connection, it ends with its caller, and the others are
// served.
func FuzzConnection_HarmsNoOther(f *testing.F) {
	e := openEdge(f)
	f.Add([]byte(""))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(aCall(f, paymentv1.PaymentService_CreatePayment_FullMethodName, "x-correlation-id", "one"))
	f.Add(aCall(f, "/a\r\nb", "authorization", "Bearer \x1b[31m"))
	f.Add(aCall(f, "", "grpc-timeout", "99999999H"))
	f.Fuzz(func(t *testing.T, after []byte) {
		conn, err := e.grpc.Dial()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.WriteString(conn, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
			_, _ = conn.Write(after)
			_ = conn.Close()
		}()
		_, _ = io.Copy(io.Discard, conn)
		if _, err := e.payments().GetPayment(t.Context(), &paymentv1.GetPaymentRequest{}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("after %x: %v", after, err)
		}
		e.log.goodLines(t)
	})
}

// aCall is a call with one header of the test's, as it is on the wire.
func aCall(f *testing.F, path, name, value string) []byte {
	f.Helper()
	var block, wire strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, h := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: path},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
		{Name: name, Value: value},
	} {
		if err := encoder.WriteField(h); err != nil {
			f.Fatal(err)
		}
	}
	framer := http2.NewFramer(&wire, nil)
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndHeaders: true}); err != nil {
		f.Fatal(err)
	}
	if err := framer.WriteData(1, true, []byte{0, 0, 0, 0, 0}); err != nil {
		f.Fatal(err)
	}
	return []byte(wire.String())
}
