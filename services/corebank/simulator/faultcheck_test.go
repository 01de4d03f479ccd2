package simulator

import (
	"errors"
	"math"
	"testing"
	"time"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

func TestFaults_SetRefusesWhatMeansNothing(t *testing.T) {
	tests := []struct {
		fault Fault
		field string
	}{
		{Fault{}, "action"},
		{Fault{Action: 99}, "action"},
		{Fault{Action: FaultClose, ID: "fault-1"}, "fault_id"},
		{Fault{Action: FaultClose, When: 9}, "when"},
		{Fault{Action: FaultTruncate, Bytes: 1, When: BeforeExecution}, "when"},
		{Fault{Action: FaultExtraBytes, Bytes: 1, When: BeforeExecution}, "when"},
		{Fault{Action: FaultSplit, Bytes: 1, When: BeforeExecution}, "when"},
		{Fault{Action: FaultDuplicateAnswer, When: BeforeExecution}, "when"},
		{Fault{Action: FaultUnsolicitedFrame, When: BeforeExecution}, "when"},
		{Fault{Action: FaultWrongEcho, When: BeforeExecution}, "when"},
		{Fault{Action: FaultWrongMTI, When: BeforeExecution}, "when"},
		{Fault{Action: FaultCorruptField, Field: "mti", When: BeforeExecution}, "when"},
		{Fault{Action: FaultNotFoundWhileQueued, Delay: 1, When: AfterExecution}, "when"},
		{Fault{Action: FaultClose, MTI: "0110"}, "mti"},
		{Fault{Action: FaultClose, MTI: "100"}, "mti"},
		{Fault{Action: FaultNotFoundWhileQueued, Delay: 1, MTI: "0400"}, "mti"},
		{Fault{Action: FaultClose, TranID: "GWMNU202603020000000011"}, "transaction_id"},
		{Fault{Action: FaultClose, TranID: "A B"}, "transaction_id"},
		{Fault{Action: FaultClose, TranID: "거래"}, "transaction_id"},
		{Fault{Action: FaultClose, Nth: -1}, "nth"},
		{Fault{Action: FaultClose, Times: -1}, "times"},
		{Fault{Action: FaultClose, Seed: 1}, "seed"},
		{Fault{Action: FaultClose, Probability: new(-0.1)}, "probability"},
		{Fault{Action: FaultClose, Probability: new(1.1)}, "probability"},
		{Fault{Action: FaultClose, Probability: new(math.NaN())}, "probability"},
		{Fault{Action: FaultDelay}, "delay"},
		{Fault{Action: FaultDelay, Delay: -1}, "delay"},
		{Fault{Action: FaultDelay, Delay: time.Hour + 1}, "delay"},
		{Fault{Action: FaultNotFoundWhileQueued}, "delay"},
		{Fault{Action: FaultClose, Delay: 1}, "delay"},
		{Fault{Action: FaultTruncate}, "bytes"},
		{Fault{Action: FaultTruncate, Bytes: 62}, "bytes"},
		{Fault{Action: FaultExtraBytes, Bytes: -1}, "bytes"},
		{Fault{Action: FaultExtraBytes, Bytes: 4097}, "bytes"},
		{Fault{Action: FaultSplit, Bytes: 61}, "bytes"},
		{Fault{Action: FaultReset, Bytes: 1}, "bytes"},
		{Fault{Action: FaultTruncate, MTI: "0500", Bytes: 9990}, "bytes"},
		{Fault{Action: FaultSplit, MTI: "0300", Bytes: 9990}, "bytes"},
		{Fault{Action: FaultUnsolicitedFrame, MTI: "0300"}, "mti"},
		{Fault{Action: FaultNotFoundWhileQueued, MTI: "0500", Delay: 1}, "mti"},
		{Fault{Action: FaultClose, MTI: "0500", TranID: id(1)}, "transaction_id"},
		{Fault{Action: FaultCorruptField, MTI: "0300", Field: "tran_id"}, "field"},
		{Fault{Action: FaultSplit, Bytes: 1, Gap: -1}, "gap"},
		{Fault{Action: FaultSplit, Bytes: 1, Gap: time.Minute + 1}, "gap"},
		{Fault{Action: FaultDelay, Delay: 1, Gap: 1}, "gap"},
		{Fault{Action: FaultResponseCode}, "response_code"},
		{Fault{Action: FaultResponseCode, ResponseCode: "51"}, "response_code"},
		{Fault{Action: FaultResponseCode, ResponseCode: "00A1"}, "response_code"},
		{Fault{Action: FaultResponseCode, ResponseCode: codeDone}, "response_code"},
		{Fault{Action: FaultWrongEcho, ResponseCode: "0051"}, "response_code"},
		{Fault{Action: FaultCorruptField}, "field"},
		{Fault{Action: FaultCorruptField, Field: "amount"}, "field"},
		{Fault{Action: FaultCorruptField, Field: "balance", MTI: "0100"}, "field"},
		{Fault{Action: FaultWrongMTI, Field: "mti"}, "field"},
	}
	for _, tt := range tests {
		faults := NewFaults()
		_, err := faults.Set(tt.fault)
		var wrong *FaultError
		if !errors.As(err, &wrong) || wrong.Field != tt.field || wrong.Description == "" {
			t.Errorf("%+v: %v, want one about %s", tt.fault, err, tt.field)
		}
		if len(faults.List()) != 0 {
			t.Errorf("%+v was set", tt.fault)
		}
	}
}

func TestFaults_SetTakesTheExtremesOfEachLimit(t *testing.T) {
	faults := NewFaults()
	for _, f := range []Fault{
		{Action: FaultDelay, Delay: 1},
		{Action: FaultDelay, Delay: MaxFaultDelay, When: BeforeExecution},
		{Action: FaultTruncate, Bytes: telegram.AnswerLength},
		{Action: FaultExtraBytes, Bytes: MaxExtraBytes},
		{Action: FaultSplit, Bytes: telegram.AnswerLength - 1, Gap: MaxFaultGap},
		{Action: FaultCorruptField, Field: "balance", MTI: "0200"},
		{Action: FaultClose, Nth: math.MaxInt64, Times: math.MaxInt64, Probability: new(1.0), Seed: math.MaxUint64},
		{Action: FaultNotFoundWhileQueued, Delay: 1, MTI: "0100", TranID: "GWMNU20260302000000001"},
	} {
		setFault(t, faults, f)
	}
}

func TestFaultAction_NamesAreThoseOfTheContract(t *testing.T) {
	names := map[string]bool{}
	for a := FaultDelay; a <= FaultNotFoundWhileQueued; a++ {
		names[a.String()] = true
	}
	if len(names) != 15 || len(actionRules) != 15 {
		t.Errorf("%d names, %d rules", len(names), len(actionRules))
	}
	if got := FaultAction(0).String(); got != "INVALID(0)" {
		t.Errorf("the zero action is %s", got)
	}
}
