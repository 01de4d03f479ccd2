package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// serving starts an artificial core in this process, which takes so long to answer.
func serving(t *testing.T, takes time.Duration) *core {
	t.Helper()
	in, asks := io.Pipe()
	out, says := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveCore(t.Context(), takes, in, says) }()
	a := &artificial{in: asks, out: bufio.NewReader(out)}
	c, err := a.core(takes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = asks.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestCore_TellsOfTheExchangesThatTheBaseMade(t *testing.T) {
	core := serving(t, 0)
	perSecond, err := base(t.Context(), core, 10*time.Millisecond)
	if err != nil || perSecond <= 0 {
		t.Fatalf("%v a second, error %v", perSecond, err)
	}
	if n, took, err := core.tell(t.Context(), true); n != 2*core.numbers.Load() || took <= 0 || err != nil {
		t.Errorf("it tells of %d requests for %d payments in %v, error %v", n, core.numbers.Load(), took, err)
	}
	if n, _, err := core.tell(t.Context(), false); n != 0 || err != nil {
		t.Errorf("after forgetting it tells of %d requests, error %v", n, err)
	}
}

func TestCore_TakesAsLongToAnswerAsItIsTold(t *testing.T) {
	const takes = 10 * time.Millisecond
	perSecond, err := base(t.Context(), serving(t, takes), 10*takes)
	if most := connections / takes.Seconds(); err != nil || perSecond > 1.2*most { // the burst may catch one more of each
		t.Errorf("%v a second, error %v; want at most %v", perSecond, err, most)
	}
}

// hearing is a core whose answers are changed by spoil, and what it was asked of
// each ID.
func hearing(t *testing.T, spoil func(answer []byte)) (c *core, asked func() map[string]string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answers, err := templates()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	heard := map[string]string{}
	serve := func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		request := make([]byte, telegram.RequestLength)
		for {
			if _, err := io.ReadFull(conn, request); err != nil {
				return
			}
			mti, id := telegram.MTI(request), string(request[idAt:idEnd])
			mu.Lock()
			heard[id] += mti + " "
			mu.Unlock()
			answer := []byte(string(answers[mti]))
			copy(answer[idAt:idEnd], id)
			spoil(answer)
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		conns.Wait()
	})
	return &core{addr: listener.Addr().String(), flag: done}, func() map[string]string {
		mu.Lock()
		defer mu.Unlock()
		return heard
	}
}

func TestBase_InquiresAndThenCancelsEachPaymentOnce(t *testing.T) {
	core, asked := hearing(t, func([]byte) {})
	core.fresh() // a row of the ledger's
	if _, err := base(t.Context(), core, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if heard := asked(); len(heard) < connections || heard[string(transactionID(1))] != "" {
		t.Errorf("%d payments, of the ledger's row %q", len(heard), heard[string(transactionID(1))])
	}
	for id, mtis := range asked() {
		if mtis != "0400 0420 " {
			t.Errorf("%s was asked about with %s", id, mtis)
		}
	}
}

func TestBase_WrongAnswerIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(answer []byte)
		want  error
	}{
		"of another payment": {func(answer []byte) { answer[idEnd-1] = '~' }, errEcho},
		"of another type":    {func(answer []byte) { copy(answer, "0110") }, errEcho},
		"another flag":       {func(answer []byte) { copy(answer[saysAt:], notDone) }, errSays},
		"another code":       {func(answer []byte) { copy(answer[saysAt+2:], "0099") }, errSays},
	} {
		t.Run(name, func(t *testing.T) {
			core, _ := hearing(t, c.spoil)
			if _, err := base(t.Context(), core, time.Millisecond); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestBase_CoreThatIsGoneIsAnError(t *testing.T) {
	if _, err := base(t.Context(), &core{addr: "127.0.0.1:1"}, time.Millisecond); err == nil {
		t.Error("no error")
	}
}

func TestLine_SaysWhetherTheGoalIsMet(t *testing.T) {
	for want, r := range map[string]struct{ before, drained, after float64 }{
		"met":      {100, 25, 100},
		"MISSED":   {100, 24, 100},
		"rejected": {100, 50, 80},
	} {
		var sum result
		sum.add(r.before, r.drained, r.after, cpus{time.Microsecond, time.Microsecond})
		line, met := sum.line("sqlite", "at once")
		if met != (want == "met") || !strings.HasSuffix(line, "| "+want+" |\n") || strings.Count(line, "|") != strings.Count(strings.SplitN(heading, "\n", 2)[0], "|") {
			t.Errorf("%s: met %t: %s", want, met, line)
		}
	}
}

func TestConfig_CoresAreThoseThatThereAre(t *testing.T) {
	for cores, ok := range map[string]bool{
		"instant,slow,corebank": true, "corebank": true, "": false, "host": false, "slow,slow": false,
	} {
		cfg := config{Rows: 1, Rounds: 1, Burst: 1, Takes: 1, Cores: strings.Split(cores, ",")}
		if err := cfg.Validate(); (err == nil) != ok {
			t.Errorf("--cores %s: error %v", cores, err)
		}
	}
}
