package grpcapi

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

const (
	before = simulatorv1.FaultPoint_FAULT_POINT_BEFORE_EXECUTION
	after  = simulatorv1.FaultPoint_FAULT_POINT_AFTER_EXECUTION

	actClose  = simulatorv1.FaultAction_FAULT_ACTION_CLOSE
	actDelay  = simulatorv1.FaultAction_FAULT_ACTION_DELAY
	actSplit  = simulatorv1.FaultAction_FAULT_ACTION_SPLIT
	actCode   = simulatorv1.FaultAction_FAULT_ACTION_RESPONSE_CODE
	actField  = simulatorv1.FaultAction_FAULT_ACTION_CORRUPT_FIELD
	actQueued = simulatorv1.FaultAction_FAULT_ACTION_NOT_FOUND_WHILE_QUEUED
)

func set(t *testing.T, s *server, f *simulatorv1.Fault) *simulatorv1.Fault {
	t.Helper()
	resp, err := s.SetFault(t.Context(), &simulatorv1.SetFaultRequest{Fault: f})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetFault()
}

func TestSetFault_ReturnsTheFaultWithIDAndPointAndItsAccountMasked(t *testing.T) {
	s := newServer(t)
	asked := []*simulatorv1.Fault{
		{
			Mti: "0100", AccountNumber: aliceDigits, TransactionId: string(id(1)), Nth: 2, Probability: new(0.5), Seed: 7,
			Times: 3, When: before, Action: actDelay, Delay: durationpb.New(1500 * time.Millisecond),
		},
		{Action: actSplit, Bytes: 20, Gap: durationpb.New(time.Second)},
		{Action: actCode, ResponseCode: "0051", Probability: new(0.0)},
		{Action: actField, Field: "approval_no"},
	}
	want := []*simulatorv1.Fault{
		{
			FaultId: "fault-1", Mti: "0100", AccountNumber: "123456****1234", TransactionId: string(id(1)), Nth: 2,
			Probability: new(0.5), Seed: 7, Times: 3, When: before, Action: actDelay, Delay: durationpb.New(1500 * time.Millisecond),
		},
		{FaultId: "fault-2", Action: actSplit, When: after, Bytes: 20, Gap: durationpb.New(time.Second)},
		{FaultId: "fault-3", Action: actCode, When: before, ResponseCode: "0051", Probability: new(0.0)},
		{FaultId: "fault-4", Action: actField, When: after, Field: "approval_no"},
	}
	got := make([]*simulatorv1.Fault, len(asked))
	for i, f := range asked {
		got[i] = set(t, s, f)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	list, err := s.ListFaults(t.Context(), &simulatorv1.ListFaultsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, list.GetFaults(), protocmp.Transform()); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if strings.Contains(protojson.Format(list), aliceDigits) {
		t.Error("the account number is shown")
	}
}

func TestSetFault_StrikesTheFramesOfTheLinkPort(t *testing.T) {
	s := newServer(t)
	set(t, s, &simulatorv1.Fault{AccountNumber: aliceDigits, Action: actClose, Times: 1})
	near, far := net.Pipe()
	link := simulator.NewServer(s.bank, simulator.Options{Faults: s.faults})
	var serving sync.WaitGroup
	serving.Go(func() { link.ServeConn(context.WithoutCancel(t.Context()), far) })
	defer serving.Wait()
	defer func() { _ = near.Close() }()
	alice, err := account.Parse(aliceDigits)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := telegram.PaymentRequest{TranID: id(1), Account: alice, Amount: 1}.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := near.Write(frame); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(near); len(b) > 0 || err != nil {
		t.Errorf("got %q and %v", b, err)
	}
	page, err := s.ListJournal(t.Context(), &simulatorv1.ListJournalRequest{})
	if err != nil || len(page.GetEntries()) != 1 || page.GetEntries()[0].GetResponseCode() != "0000" {
		t.Errorf("journal: %v and %v", page.GetEntries(), err)
	}
}

func TestClearFaults_CountsWhatIsGone(t *testing.T) {
	s := newServer(t)
	for range 3 {
		set(t, s, &simulatorv1.Fault{Action: actClose})
	}
	for _, step := range []struct {
		id   string
		want int32
	}{{"fault-2", 1}, {"fault-2", 0}, {"what", 0}, {"", 2}, {"", 0}} {
		resp, err := s.ClearFaults(t.Context(), &simulatorv1.ClearFaultsRequest{FaultId: step.id})
		if err != nil || resp.GetCleared() != step.want {
			t.Errorf("clear %q: %v and %v", step.id, resp, err)
		}
	}
}

func TestSetFault_NamesTheFieldThatMakesNoSense(t *testing.T) {
	tests := []struct {
		fault *simulatorv1.Fault
		field string
	}{
		{nil, "fault.action"},
		{&simulatorv1.Fault{Action: 99}, "fault.action"},
		{&simulatorv1.Fault{Action: actClose, When: 99}, "fault.when"},
		{&simulatorv1.Fault{Action: actClose, AccountNumber: "12a"}, "fault.account_number"},
		{&simulatorv1.Fault{Action: actClose, FaultId: "fault-1"}, "fault.fault_id"},
		{&simulatorv1.Fault{Action: actSplit, Bytes: 1, When: before}, "fault.when"},
		{&simulatorv1.Fault{Action: actQueued, Delay: durationpb.New(1), Mti: "0200"}, "fault.mti"},
		{&simulatorv1.Fault{Action: actClose, Delay: durationpb.New(1)}, "fault.delay"},
		{&simulatorv1.Fault{Action: actCode}, "fault.response_code"},
	}
	s := newServer(t)
	for _, tt := range tests {
		_, err := s.SetFault(t.Context(), &simulatorv1.SetFaultRequest{Fault: tt.fault})
		wantInvalid(t, err, tt.field)
		if err != nil && strings.Contains(err.Error(), "12a") {
			t.Errorf("the error repeats the input: %v", err)
		}
	}
}

func TestSetFault_RefusesMoreThanFit(t *testing.T) {
	s := newServer(t)
	for range simulator.MaxFaults {
		set(t, s, &simulatorv1.Fault{Action: actClose})
	}
	_, err := s.SetFault(t.Context(), &simulatorv1.SetFaultRequest{Fault: &simulatorv1.Fault{Action: actClose}})
	wantInvalid(t, err, "fault")
}

// Every value of the contract is one of the simulator's, and under its name.
func TestFaultPB_KnowsEveryActionAndPoint(t *testing.T) {
	for number, name := range simulatorv1.FaultAction_name {
		action, known := actions[simulatorv1.FaultAction(number)]
		if number == 0 {
			continue
		}
		if !known || "FAULT_ACTION_"+action.String() != name {
			t.Errorf("%s is %s", name, action)
		}
		if got := faultPB(simulator.Fault{Action: action}).GetAction(); got != simulatorv1.FaultAction(number) {
			t.Errorf("%s is shown as %s", name, got)
		}
	}
	for number, name := range simulatorv1.FaultPoint_name {
		point, known := points[simulatorv1.FaultPoint(number)]
		if !known || number != 0 && "FAULT_POINT_"+point.String() != name {
			t.Errorf("%s is %s", name, point)
		}
	}
}
