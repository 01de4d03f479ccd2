package simulator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// childBookEnv makes the test binary a core on the book that it names.
const childBookEnv = "GWANMUN_TEST_CHILD_BOOK"

// runChild serves until it is killed.
func runChild(path string) {
	err := func() error {
		book, err := OpenSQLite(context.Background(), path)
		if err != nil {
			return err
		}
		bank, err := Open(context.Background(), book, Rules{}, time.Now)
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(l.Addr())
		return NewServer(bank, Options{}).Serve(context.Background(), l)
	}()
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// answered is what a caller was told before the core was killed.
type answered struct {
	mu       sync.Mutex
	debited  map[tranid.ID]bool
	canceled map[tranid.ID]bool
	fenced   map[tranid.ID]bool
}

func TestBank_KilledCoreKnowsAllThatItAnswered(t *testing.T) {
	path := newPath(t)
	told := &answered{
		debited: map[tranid.ID]bool{}, canceled: map[tranid.ID]bool{}, fenced: map[tranid.ID]bool{},
	}
	const rounds = 3
	for round := range rounds {
		killInTheMiddle(t, path, told, int64(round)*1_000_000)
		wantBookKnows(t, path, told)
	}
	if len(told.debited) == 0 || len(told.canceled) == 0 || len(told.fenced) == 0 {
		t.Errorf("nothing was tried: %d debits, %d cancels, %d fences",
			len(told.debited), len(told.canceled), len(told.fenced))
	}
}

// killInTheMiddle runs a core, lets callers pay and cancel, and kills it -9 once
// it has answered a number of them.
func killInTheMiddle(t *testing.T, path string, told *answered, first int64) {
	t.Helper()
	core := exec.CommandContext(t.Context(), os.Args[0])
	core.Env = append(os.Environ(), childBookEnv+"="+path)
	core.Stderr = os.Stderr
	out, err := core.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Start(); err != nil {
		t.Fatal(err)
	}
	address := bufio.NewScanner(out)
	if !address.Scan() {
		_ = core.Wait()
		t.Fatal("the core did not start")
	}
	const callers, until = 16, 400
	enough := make(chan struct{}, callers*1000)
	var calling sync.WaitGroup
	for n := range int64(callers) {
		calling.Go(func() { told.call(address.Text(), first+n*10_000, enough) })
	}
	for range until {
		<-enough
	}
	if err := core.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := core.Wait(); !errors.As(err, &exit) {
		t.Errorf("the core ended with %v", err)
	}
	calling.Wait()
}

// call pays, and net-cancels some of it and some that it never paid, until the
// core is gone.
func (a *answered) call(address string, first int64, enough chan<- struct{}) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	for n := first; n < first+1000; n++ {
		request, err := telegram.PaymentRequest{TranID: id(n), Account: alice, Amount: 10}.AppendTo(nil)
		into := a.debited
		switch n % 5 {
		case 3: // the payment before
			request, err = telegram.CancelRequest{TranID: id(n - 1)}.AppendTo(nil)
			into = a.canceled
		case 4: // nothing
			request, err = telegram.CancelRequest{TranID: id(n)}.AppendTo(nil)
			into = a.fenced
		}
		if err != nil || !exchange(conn, request) {
			return
		}
		a.mu.Lock()
		into[id(n)] = true
		a.mu.Unlock()
		enough <- struct{}{}
	}
}

func exchange(conn net.Conn, request []byte) bool {
	if _, err := conn.Write(request); err != nil {
		return false
	}
	answer := make([]byte, telegram.AnswerLength)
	for n := 0; n < len(answer); {
		read, err := conn.Read(answer[n:])
		if err != nil {
			return false
		}
		n += read
	}
	return true
}

func wantBookKnows(t *testing.T, path string, told *answered) {
	t.Helper()
	book := openSQLite(t, path)
	effects := map[tranid.ID]map[Effect]bool{}
	var debited, canceled account.Won
	for _, e := range journal(t, book) {
		if effects[e.TranID] == nil {
			effects[e.TranID] = map[Effect]bool{}
		}
		effects[e.TranID][e.Effect] = true
		switch e.Effect {
		case EffectDebit:
			debited += e.Amount
		case EffectCancel:
			canceled += e.Amount
		default:
		}
	}
	bank := openBank(t, book, Rules{})
	for n := range told.debited {
		if !effects[n][EffectDebit] {
			t.Errorf("%s was answered and is not in the journal", n)
		}
		if d := bank.rules.decide(bank.state, request{mti: "0100", tranID: n, account: alice, amount: 1}); d.code != codeUsed {
			t.Errorf("%s can be debited again: %s", n, d.code)
		}
	}
	for n := range told.canceled {
		if before := id(number(n) - 1); !effects[before][EffectCancel] || bank.state.fates[before].stands {
			t.Errorf("%s was canceled and stands", before)
		}
	}
	for n := range told.fenced {
		if d := bank.rules.decide(bank.state, request{mti: "0100", tranID: n, account: alice, amount: 1}); d.code != codeFenced {
			t.Errorf("%s was fenced and passes: %s", n, d.code)
		}
	}
	if balance := bank.state.balances[alice]; balance != opening(alice)-debited+canceled {
		t.Errorf("balance %d is not %d - %d + %d", balance, opening(alice), debited, canceled)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
}

// number is the running number of an ID of id.
func number(n tranid.ID) int64 {
	var value int64
	for _, digit := range n[tranid.Length-9:] {
		value = value*10 + int64(digit-'0')
	}
	return value
}
