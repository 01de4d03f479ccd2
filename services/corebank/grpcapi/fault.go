package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// SetFault makes the core misbehave.
func (s *server) SetFault(_ context.Context, req *simulatorv1.SetFaultRequest) (*simulatorv1.SetFaultResponse, error) {
	var set simulator.Fault
	asked, err := fault(req.GetFault())
	if err == nil {
		set, err = s.faults.Set(asked)
	}
	var wrong *simulator.FaultError
	switch {
	case errors.As(err, &wrong):
		return nil, invalid("fault."+wrong.Field, errors.New(wrong.Description))
	case errors.Is(err, simulator.ErrTooManyFaults):
		return nil, invalid("fault", simulator.ErrTooManyFaults)
	case err != nil:
		return nil, fmt.Errorf("set fault: %w", err)
	}
	return &simulatorv1.SetFaultResponse{Fault: faultPB(set)}, nil
}

// ListFaults returns all faults; they are few.
func (s *server) ListFaults(context.Context, *simulatorv1.ListFaultsRequest) (*simulatorv1.ListFaultsResponse, error) {
	faults := s.faults.List()
	resp := &simulatorv1.ListFaultsResponse{Faults: make([]*simulatorv1.Fault, len(faults))}
	for i, f := range faults {
		resp.Faults[i] = faultPB(f)
	}
	return resp, nil
}

// ClearFaults takes faults back.
func (s *server) ClearFaults(_ context.Context, req *simulatorv1.ClearFaultsRequest) (*simulatorv1.ClearFaultsResponse, error) {
	return &simulatorv1.ClearFaultsResponse{Cleared: int32(s.faults.Clear(req.GetFaultId()))}, nil
}

// points and actions are the contract's values beside the simulator's.
var points = map[simulatorv1.FaultPoint]simulator.FaultPoint{
	simulatorv1.FaultPoint_FAULT_POINT_UNSPECIFIED:      0,
	simulatorv1.FaultPoint_FAULT_POINT_BEFORE_EXECUTION: simulator.BeforeExecution,
	simulatorv1.FaultPoint_FAULT_POINT_AFTER_EXECUTION:  simulator.AfterExecution,
}

var actions = map[simulatorv1.FaultAction]simulator.FaultAction{
	simulatorv1.FaultAction_FAULT_ACTION_DELAY:                  simulator.FaultDelay,
	simulatorv1.FaultAction_FAULT_ACTION_CLOSE:                  simulator.FaultClose,
	simulatorv1.FaultAction_FAULT_ACTION_RESET:                  simulator.FaultReset,
	simulatorv1.FaultAction_FAULT_ACTION_HALF_CLOSE:             simulator.FaultHalfClose,
	simulatorv1.FaultAction_FAULT_ACTION_BLACK_HOLE:             simulator.FaultBlackHole,
	simulatorv1.FaultAction_FAULT_ACTION_TRUNCATE:               simulator.FaultTruncate,
	simulatorv1.FaultAction_FAULT_ACTION_EXTRA_BYTES:            simulator.FaultExtraBytes,
	simulatorv1.FaultAction_FAULT_ACTION_SPLIT:                  simulator.FaultSplit,
	simulatorv1.FaultAction_FAULT_ACTION_DUPLICATE_ANSWER:       simulator.FaultDuplicateAnswer,
	simulatorv1.FaultAction_FAULT_ACTION_UNSOLICITED_FRAME:      simulator.FaultUnsolicitedFrame,
	simulatorv1.FaultAction_FAULT_ACTION_WRONG_ECHO:             simulator.FaultWrongEcho,
	simulatorv1.FaultAction_FAULT_ACTION_WRONG_MTI:              simulator.FaultWrongMTI,
	simulatorv1.FaultAction_FAULT_ACTION_RESPONSE_CODE:          simulator.FaultResponseCode,
	simulatorv1.FaultAction_FAULT_ACTION_CORRUPT_FIELD:          simulator.FaultCorruptField,
	simulatorv1.FaultAction_FAULT_ACTION_NOT_FOUND_WHILE_QUEUED: simulator.FaultNotFoundWhileQueued,
}

// contractValue is the key under which a table has a value, and the zero key,
// UNSPECIFIED, when it has none.
func contractValue[K, V comparable](table map[K]V, value V) K {
	for k, v := range table {
		if v == value {
			return k
		}
	}
	var unspecified K
	return unspecified
}

// fault reads a message. Errors: *simulator.FaultError.
func fault(m *simulatorv1.Fault) (simulator.Fault, error) {
	if m == nil { // which only the rules of the contract refuse
		m = new(simulatorv1.Fault)
	}
	when, known := points[m.GetWhen()]
	if !known {
		return simulator.Fault{}, &simulator.FaultError{Field: "when", Description: "must be a point of the contract"}
	}
	f := simulator.Fault{
		ID: m.GetFaultId(), MTI: m.GetMti(), TranID: tranid.ID(m.GetTransactionId()),
		Nth: m.GetNth(), Probability: m.Probability, Seed: m.GetSeed(), Times: m.GetTimes(),
		When: when, Action: actions[m.GetAction()],
		Delay: m.GetDelay().AsDuration(), Bytes: int(m.GetBytes()), Gap: m.GetGap().AsDuration(),
		ResponseCode: m.GetResponseCode(), Field: m.GetField(),
	}
	if m.GetAccountNumber() == "" {
		return f, nil
	}
	number, err := account.Parse(m.GetAccountNumber())
	if err != nil {
		return simulator.Fault{}, &simulator.FaultError{Field: "account_number", Description: err.Error()}
	}
	f.Account = number
	return f, nil
}

// faultPB shows a fault, its account masked.
func faultPB(f simulator.Fault) *simulatorv1.Fault {
	return &simulatorv1.Fault{
		FaultId: f.ID, Mti: f.MTI, AccountNumber: f.Account.Masked(), TransactionId: string(f.TranID),
		Nth: f.Nth, Probability: f.Probability, Seed: f.Seed, Times: f.Times,
		When: contractValue(points, f.When), Action: contractValue(actions, f.Action),
		Delay: durationPB(f.Delay), Bytes: int32(f.Bytes), Gap: durationPB(f.Gap),
		ResponseCode: f.ResponseCode, Field: f.Field,
	}
}

// durationPB is unset for no time at all.
func durationPB(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
