package simulator

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// planOf is the planner of faults over one habit, that of alice, which refuses
// with 0098. Transaction 1 is about alice; the bank knows no other.
func planOf(faults *Faults) planner {
	base := func(q request) plan {
		if q.account == alice {
			return plan{refusal: "0098"}
		}
		return plan{}
	}
	return faults.over(base, func(asked tranid.ID) account.Number {
		if asked == id(1) {
			return alice
		}
		return account.Number{}
	})
}

// strikes are the faults that strike a number of equal frames, one after the
// other; empty where none does.
func strikes(p planner, q request, count int) []string {
	struck := make([]string, count)
	for i := range struck {
		struck[i] = p(q).fault
	}
	return struck
}

func TestFaults_StrikeTheFramesThatMatch(t *testing.T) {
	frames := map[string]request{
		"pay 1 alice":     {mti: "0100", tranID: id(1), account: alice},
		"pay 2 bob":       {mti: "0100", tranID: id(2), account: bob},
		"balance 3 alice": {mti: "0200", tranID: id(3), account: alice},
		"status 1":        {mti: "0400", tranID: id(1)},
		"status 2":        {mti: "0400", tranID: id(2)},
		"cancel 1":        {mti: "0420", tranID: id(1)},
	}
	tests := []struct {
		name   string
		fault  Fault
		struck []string
	}{
		{
			"anything",
			Fault{Action: FaultClose},
			[]string{"pay 1 alice", "pay 2 bob", "balance 3 alice", "status 1", "status 2", "cancel 1"},
		},
		{"a type", Fault{Action: FaultClose, MTI: "0100"}, []string{"pay 1 alice", "pay 2 bob"}},
		{
			"an account, the original's too",
			Fault{Action: FaultClose, Account: mustAccount("12345678901234")},
			[]string{"pay 1 alice", "balance 3 alice", "status 1", "cancel 1"},
		},
		{"a transaction", Fault{Action: FaultClose, TranID: id(2)}, []string{"pay 2 bob", "status 2"}},
		{"all of them", Fault{Action: FaultClose, MTI: "0420", Account: alice, TranID: id(1)}, []string{"cancel 1"}},
		{"all of them but the account", Fault{Action: FaultClose, MTI: "0420", Account: bob, TranID: id(1)}, nil},
		{"all of them but the type", Fault{Action: FaultClose, MTI: "0200", Account: alice, TranID: id(1)}, nil},
		{"all of them but the transaction", Fault{Action: FaultClose, MTI: "0420", Account: alice, TranID: id(2)}, nil},
		{
			"a type that the action has",
			Fault{Action: FaultNotFoundWhileQueued, Delay: 1},
			[]string{"pay 1 alice", "pay 2 bob"},
		},
		{
			"an answer that has the field",
			Fault{Action: FaultCorruptField, Field: "processed"},
			[]string{"status 1", "status 2"},
		},
		{
			"an answer that has the field, of an account",
			Fault{Action: FaultCorruptField, Field: "tx_code", Account: alice},
			[]string{"status 1", "cancel 1"},
		},
	}
	for _, tt := range tests {
		faults := NewFaults()
		setFault(t, faults, tt.fault)
		want := map[string]bool{}
		for _, name := range tt.struck {
			want[name] = true
		}
		p := planOf(faults)
		for name, q := range frames {
			if struck := p(q).fault != ""; struck != want[name] {
				t.Errorf("%s: %s struck is %v", tt.name, name, struck)
			}
		}
	}
}

func TestFaults_AccountMatchesWhateverItsLeadingZeros(t *testing.T) {
	faults := NewFaults()
	setFault(t, faults, Fault{Action: FaultClose, Account: mustAccount("00077")})
	if planOf(faults)(request{mti: "0100", account: mustAccount("77")}).fault == "" {
		t.Error("it was not struck")
	}
}

func TestFaults_CountAndLimitWhatTheyStrike(t *testing.T) {
	pay := request{mti: "0100", tranID: id(5), account: bob}
	tests := []struct {
		name string
		set  []Fault
		want []string
	}{
		{"each", []Fault{{Action: FaultClose}}, []string{"fault-1", "fault-1", "fault-1", "fault-1", "fault-1"}},
		{"nth", []Fault{{Action: FaultClose, Nth: 3}}, []string{"", "", "fault-1", "", ""}},
		{"times", []Fault{{Action: FaultClose, Times: 2}}, []string{"fault-1", "fault-1", "", "", ""}},
		{"nth, which is at most once", []Fault{{Action: FaultClose, Nth: 2, Times: 9}}, []string{"", "fault-1", "", "", ""}},
		{
			"the first that was set wins",
			[]Fault{{Action: FaultClose, Times: 2}, {Action: FaultReset}},
			[]string{"fault-1", "fault-1", "fault-2", "fault-2", "fault-2"},
		},
		{
			"frames that another fault strikes count",
			[]Fault{{Action: FaultClose, Nth: 1}, {Action: FaultReset, Nth: 2}},
			[]string{"fault-1", "fault-2", "", "", ""},
		},
		{
			"strikes that another fault takes do not",
			[]Fault{{Action: FaultClose, Times: 3}, {Action: FaultReset, Times: 1}},
			[]string{"fault-1", "fault-1", "fault-1", "fault-2", ""},
		},
	}
	for _, tt := range tests {
		faults := NewFaults()
		for _, f := range tt.set {
			setFault(t, faults, f)
		}
		if diff := cmp.Diff(tt.want, strikes(planOf(faults), pay, len(tt.want))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestFaults_FramesThatDoNotMatchAreNotCounted(t *testing.T) {
	faults := NewFaults()
	setFault(t, faults, Fault{Action: FaultClose, MTI: "0100", Nth: 2})
	p := planOf(faults)
	got := make([]string, 0, 4)
	for _, mti := range []string{"0100", "0200", "0400", "0100"} {
		got = append(got, p(request{mti: mti, tranID: id(9), account: bob}).fault)
	}
	if diff := cmp.Diff([]string{"", "", "", "fault-1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFaults_ProbabilityReplaysWithItsSeed(t *testing.T) {
	pay := request{mti: "0100", tranID: id(5), account: bob}
	const frames = 1000
	run := func(seed uint64, before ...Fault) []bool {
		faults := NewFaults()
		for _, f := range before {
			setFault(t, faults, f)
		}
		drawn := setFault(t, faults, Fault{Action: FaultClose, Probability: new(0.25), Seed: seed})
		p := planOf(faults)
		struck := make([]bool, frames)
		for i := range struck {
			struck[i] = p(pay).fault == drawn.ID
		}
		return struck
	}
	first := run(7)
	if diff := cmp.Diff(first, run(7)); diff != "" {
		t.Errorf("the same seed (-first +second):\n%s", diff)
	}
	if cmp.Equal(first, run(8)) {
		t.Error("another seed strikes the same frames")
	}
	count := 0
	for _, struck := range first {
		if struck {
			count++
		}
	}
	if count < 200 || count > 300 {
		t.Errorf("%d of %d frames are struck, with a probability of 0.25", count, frames)
	}
	// A fault that goes first takes frames, and shifts no draw.
	beside := run(7, Fault{Action: FaultReset, Nth: 1}, Fault{Action: FaultReset, Probability: new(0.5), Times: 3})
	taken := 0
	for i := range first {
		if beside[i] && !first[i] {
			t.Errorf("frame %d is struck beside other faults alone", i)
		}
		if first[i] && !beside[i] {
			taken++
		}
	}
	if taken > 4 {
		t.Errorf("%d frames were taken by faults that strike 4", taken)
	}
}

func TestFaults_ProbabilityZeroNeverAndOneAlways(t *testing.T) {
	pay := request{mti: "0100", tranID: id(5), account: bob}
	for p, want := range map[float64]int{0: 0, 1: 500} {
		faults := NewFaults()
		setFault(t, faults, Fault{Action: FaultClose, Probability: new(p)})
		got := 0
		for _, struck := range strikes(planOf(faults), pay, 500) {
			if struck != "" {
				got++
			}
		}
		if got != want {
			t.Errorf("probability %v: %d of 500", p, got)
		}
	}
}

func TestFaults_StandInForTheHabitOfTheFramesTheyStrikeAlone(t *testing.T) {
	faults := NewFaults()
	setFault(t, faults, Fault{Action: FaultWrongEcho, Times: 1})
	p := planOf(faults)
	pay := request{mti: "0100", tranID: id(1), account: alice}
	if got := p(pay); got.refusal != "" || got.fault == "" {
		t.Errorf("the struck frame: refusal %q, fault %q", got.refusal, got.fault)
	}
	if got := p(pay); got.refusal != "0098" || got.fault != "" {
		t.Errorf("the frame behind it: refusal %q, fault %q", got.refusal, got.fault)
	}
}

func TestFaults_ListIsInTheOrderOfSettingWithIDsThatAreNeverUsedAgain(t *testing.T) {
	faults := NewFaults()
	for _, action := range []FaultAction{FaultClose, FaultReset, FaultBlackHole} {
		setFault(t, faults, Fault{Action: action, Times: 1})
	}
	if got := faults.Clear("fault-3"); got != 1 {
		t.Errorf("cleared %d", got)
	}
	setFault(t, faults, Fault{Action: FaultWrongMTI})
	planOf(faults)(request{mti: "0100"}) // fault-1 will not strike again, and is listed
	got := make([]string, 0, 3)
	for _, f := range faults.List() {
		got = append(got, f.ID+" "+f.Action.String()+" "+f.When.String())
	}
	want := []string{"fault-1 CLOSE AFTER_EXECUTION", "fault-2 RESET AFTER_EXECUTION", "fault-4 WRONG_MTI AFTER_EXECUTION"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFaults_ClearTakesOneOrAllBack(t *testing.T) {
	faults := NewFaults()
	for range 5 {
		setFault(t, faults, Fault{Action: FaultClose})
	}
	for _, step := range []struct {
		id   string
		want int
	}{{"fault-2", 1}, {"fault-2", 0}, {"fault-99", 0}, {"", 4}, {"", 0}} {
		if got := faults.Clear(step.id); got != step.want {
			t.Errorf("clear %q: %d, want %d", step.id, got, step.want)
		}
	}
	if got := planOf(faults)(request{mti: "0100"}).fault; got != "" {
		t.Errorf("%s strikes after it was cleared", got)
	}
}

func TestFaults_AreBoundedInNumber(t *testing.T) {
	faults := NewFaults()
	for range MaxFaults {
		setFault(t, faults, Fault{Action: FaultClose, Times: 1})
	}
	if _, err := faults.Set(Fault{Action: FaultClose}); !errors.Is(err, ErrTooManyFaults) {
		t.Errorf("one more: %v", err)
	}
	if !strings.Contains(ErrTooManyFaults.Error(), fmt.Sprint(MaxFaults)) {
		t.Errorf("the error says %q", ErrTooManyFaults)
	}
	faults.Clear("fault-7")
	setFault(t, faults, Fault{Action: FaultClose})
}

func TestFaults_KeepWhatTheyWereGiven(t *testing.T) {
	faults := NewFaults()
	likely := 1.0
	setFault(t, faults, Fault{Action: FaultClose, Probability: &likely})
	likely = 0
	if planOf(faults)(request{mti: "0100"}).fault == "" {
		t.Error("the caller's variable is the fault's")
	}
}

// The account of an inquiry is that of its original as soon as a payment was
// decided under the ID, and it is unknown while none was.
func TestFault_InquiryIsAboutTheAccountOfItsOriginal(t *testing.T) {
	bank, book := newBank(t, Rules{})
	faults := NewFaults()
	setFault(t, faults, Fault{Action: FaultResponseCode, ResponseCode: "0077", MTI: "0400", Account: alice})
	setFault(t, faults, Fault{Action: FaultResponseCode, ResponseCode: "0078", MTI: "0420", Account: alice})
	c := dial(t, NewServer(bank, Options{Faults: faults}))
	if got := c.status(id(1)); got.ResponseCode != codeDone {
		t.Errorf("before the payment: %s", got.ResponseCode)
	}
	c.pay(id(1), alice, 1000)
	c.pay(id(2), bob, 1000)
	if got := c.status(id(1)); got.ResponseCode != "0077" {
		t.Errorf("inquiry about alice's: %s", got.ResponseCode)
	}
	if got := c.status(id(2)); got.ResponseCode != codeDone {
		t.Errorf("inquiry about bob's: %s", got.ResponseCode)
	}
	if got := c.cancel(id(1)); got.ResponseCode != "0078" {
		t.Errorf("cancel of alice's: %s", got.ResponseCode)
	}
	if got := c.cancel(id(2)); got.ResponseCode != codeDone {
		t.Errorf("cancel of bob's: %s", got.ResponseCode)
	}
	for _, e := range journal(t, book) {
		if e.TranID == id(1) && e.Sequence > 1 && e.Account != alice {
			t.Errorf("entry %d, a %s, is about %q", e.Sequence, e.MTI, e.Account)
		}
	}
}

func TestFaults_MayBeSetAndClearedWhileFramesArrive(t *testing.T) {
	bank, book := newBank(t, Rules{})
	faults := NewFaults()
	s := NewServer(bank, Options{Faults: faults})
	const clients, frames = 8, 50
	stop := make(chan struct{})
	var setting, paying sync.WaitGroup
	setting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			f := setFault(t, faults, Fault{Action: FaultWrongEcho, Probability: new(0.5), Account: alice})
			faults.List()
			faults.Clear(f.ID)
		}
	})
	for n := range int64(clients) {
		c := dial(t, s)
		paying.Go(func() {
			for i := range int64(frames) {
				c.send(payment(t, id(n*frames+i), alice, 1))
				c.receive()
			}
		})
	}
	paying.Wait()
	close(stop)
	setting.Wait()
	if got := len(journal(t, book)); got != clients*frames {
		t.Errorf("%d entries for %d frames", got, clients*frames)
	}
}
