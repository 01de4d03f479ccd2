package grpcapi

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

// dialEdge serves a bank behind the edge that every binary has.
func dialEdge(t *testing.T) simulatorv1.SimulatorServiceClient {
	t.Helper()
	edge, err := rpcserver.New(rpcserver.Options{
		Flags:  rpcserver.Flags{GRPCAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"},
		Logger: telemetry.NewLogger(t.Output(), 0, "corebank"), Registry: telemetry.NewRegistry(),
		Ready:    func(context.Context) error { return nil },
		Services: map[string]access.Roles{simulatorv1.SimulatorService_ServiceDesc.ServiceName: access.Of(access.RoleOps)},
		Register: func(r grpc.ServiceRegistrar) {
			s := newServer(t)
			Register(r, s.bank, s.faults)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := edge.Listen(ctx); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = edge.Serve(ctx) })
	conn, err := grpc.NewClient(edge.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		serving.Wait()
		stopping, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := edge.Stop(stopping); err != nil {
			t.Error(err)
		}
	})
	return simulatorv1.NewSimulatorServiceClient(conn)
}

func TestEdge_BadInputIsInvalidArgumentAndNamesTheField(t *testing.T) {
	client := dialEdge(t)
	put := func(number string, balance int64) error {
		_, err := client.PutAccount(t.Context(), &simulatorv1.PutAccountRequest{AccountNumber: number, Balance: balance})
		return err
	}
	list := func(req *simulatorv1.ListJournalRequest) error {
		_, err := client.ListJournal(t.Context(), req)
		return err
	}
	fault := func(f *simulatorv1.Fault) error {
		_, err := client.SetFault(t.Context(), &simulatorv1.SetFaultRequest{Fault: f})
		return err
	}
	long := strings.Repeat("x", 33)
	_, clearErr := client.ClearFaults(t.Context(), &simulatorv1.ClearFaultsRequest{FaultId: long})
	tests := []struct {
		name  string
		err   error
		field string
	}{
		{"no account", put("", 1), "account_number"},
		{"an account of 15 digits", put("123456789012345", 1), "account_number"},
		{"the all-zero account", put("0000", 1), "account_number"},
		{"a negative balance", put("1", -1), "balance"},
		{"a balance of 16 digits", put("1", 1_000_000_000_000_000), "balance"},
		{"a type of letters", list(&simulatorv1.ListJournalRequest{Mti: "abcd"}), "mti"},
		{"a page too long", list(&simulatorv1.ListJournalRequest{PageSize: 501}), "page_size"},
		{"a token that is none", list(&simulatorv1.ListJournalRequest{PageToken: "x"}), "page_token"},
		{"an ID too long", list(&simulatorv1.ListJournalRequest{TransactionId: "GWMNU202603020000000011"}), "transaction_id"},
		{"no fault", fault(nil), "fault"},
		{"a fault without an action", fault(&simulatorv1.Fault{}), "fault.action"},
		{"an unknown action", fault(&simulatorv1.Fault{Action: 99}), "fault.action"},
		{"an unknown point", fault(&simulatorv1.Fault{Action: actClose, When: 3}), "fault.when"},
		{"an ID of a fault too long", fault(&simulatorv1.Fault{Action: actClose, FaultId: long}), "fault.fault_id"},
		{"an answer's type", fault(&simulatorv1.Fault{Action: actClose, Mti: "0110"}), "fault.mti"},
		{"a fault's account of letters", fault(&simulatorv1.Fault{Action: actClose, AccountNumber: "x"}), "fault.account_number"},
		{"a fault's ID with a space", fault(&simulatorv1.Fault{Action: actClose, TransactionId: "A B"}), "fault.transaction_id"},
		{"a negative nth", fault(&simulatorv1.Fault{Action: actClose, Nth: -1}), "fault.nth"},
		{"negative times", fault(&simulatorv1.Fault{Action: actClose, Times: -1}), "fault.times"},
		{"a probability over 1", fault(&simulatorv1.Fault{Action: actClose, Probability: new(1.01)}), "fault.probability"},
		{"a probability that is no number", fault(&simulatorv1.Fault{Action: actClose, Probability: new(math.NaN())}), "fault.probability"},
		{"a seed alone", fault(&simulatorv1.Fault{Action: actClose, Seed: 1}), "fault.seed"},
		{"no delay", fault(&simulatorv1.Fault{Action: actDelay}), "fault.delay"},
		{"a delay of nothing", fault(&simulatorv1.Fault{Action: actDelay, Delay: durationpb.New(0)}), "fault.delay"},
		{"a delay over an hour", fault(&simulatorv1.Fault{Action: actDelay, Delay: durationpb.New(time.Hour + 1)}), "fault.delay"},
		{"too many bytes", fault(&simulatorv1.Fault{Action: actSplit, Bytes: 4097}), "fault.bytes"},
		{"negative bytes", fault(&simulatorv1.Fault{Action: actSplit, Bytes: -1}), "fault.bytes"},
		{"bytes over the answer", fault(&simulatorv1.Fault{Action: actSplit, Bytes: 61}), "fault.bytes"},
		{"a negative gap", fault(&simulatorv1.Fault{Action: actSplit, Bytes: 1, Gap: durationpb.New(-1)}), "fault.gap"},
		{"a gap over a minute", fault(&simulatorv1.Fault{Action: actSplit, Bytes: 1, Gap: durationpb.New(time.Minute + 1)}), "fault.gap"},
		{"a code of letters", fault(&simulatorv1.Fault{Action: actCode, ResponseCode: "abcd"}), "fault.response_code"},
		{"the code of success", fault(&simulatorv1.Fault{Action: actCode, ResponseCode: "0000"}), "fault.response_code"},
		{"a field that no answer has", fault(&simulatorv1.Fault{Action: actField, Field: "amount"}), "fault.field"},
		{"a field of capitals", fault(&simulatorv1.Fault{Action: actField, Field: "BALANCE"}), "fault.field"},
		{"an ID to clear that is too long", clearErr, "fault_id"},
	}
	for _, tt := range tests {
		if status.Code(tt.err) != codes.InvalidArgument {
			t.Errorf("%s: %v", tt.name, tt.err)
			continue
		}
		named := false
		for _, detail := range status.Convert(tt.err).Details() {
			if bad, ok := detail.(*errdetails.BadRequest); ok {
				for _, v := range bad.GetFieldViolations() {
					named = named || v.GetField() == tt.field
				}
			}
		}
		if !named {
			t.Errorf("%s: %s is not named in %v", tt.name, tt.field, status.Convert(tt.err).Details())
		}
	}
}

func TestEdge_PutAccountIsShownByGetAccount(t *testing.T) {
	client := dialEdge(t)
	if _, err := client.PutAccount(t.Context(), &simulatorv1.PutAccountRequest{AccountNumber: "77", Balance: 5}); err != nil {
		t.Fatal(err)
	}
	got, err := client.GetAccount(t.Context(), &simulatorv1.GetAccountRequest{AccountNumber: "077"})
	if err != nil || got.GetAccount().GetBalance() != 5 || !got.GetAccount().GetExists() {
		t.Errorf("got %v and %v", got, err)
	}
}
