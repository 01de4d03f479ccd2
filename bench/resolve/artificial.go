package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// coreArg makes this program the core; how long that takes to answer comes after it.
const coreArg = "core"

// done is what an artificial core says of every payment: that it stands, and then
// that it is canceled.
const done = "01"

// canceled is what becomes of a payment before an artificial core.
var canceled = outcome{ledger.StatusCanceled, ledger.EvidenceCancelConfirmed}

// artificial is a core that keeps nothing, a process of its own.
type artificial struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startArtificial starts one that takes so long to answer.
func startArtificial(ctx context.Context, takes time.Duration) (*core, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	a := &artificial{cmd: exec.CommandContext(ctx, self, coreArg, takes.String())}
	a.cmd.Stderr = os.Stderr
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.out = bufio.NewReader(out)
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	c, err := a.core(takes)
	if err != nil {
		return nil, errors.Join(err, a.stop())
	}
	return c, nil
}

// core is what it is to others, once it says where it listens.
func (a *artificial) core(takes time.Duration) (*core, error) {
	line, err := a.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("read its address: %w", err)
	}
	answers := "at once"
	if takes > 0 {
		answers = "after " + takes.String()
	}
	return &core{addr: strings.TrimSpace(line), answers: answers, flag: done, ends: canceled, tell: a.tell, stop: a.stop}, nil
}

func (a *artificial) stop() error { return errors.Join(a.in.Close(), a.cmd.Wait()) }

// tell is a core's.
func (a *artificial) tell(_ context.Context, forget bool) (requests int64, took time.Duration, err error) {
	if _, err := fmt.Fprintln(a.in, forget); err != nil {
		return 0, 0, fmt.Errorf("ask the core: %w", err)
	}
	if _, err := fmt.Fscanln(a.out, &requests, &took); err != nil {
		return 0, 0, fmt.Errorf("hear the core: %w", err)
	}
	return requests, took, nil
}

// requests are those that came.
type requests struct {
	start       time.Time
	count       atomic.Int64
	first, last atomic.Int64 // since start
}

func (r *requests) came() {
	now := int64(time.Since(r.start))
	if r.count.Add(1) == 1 {
		r.first.Store(now)
	}
	r.last.Store(now)
}

// serveCore is the core: it says where it listens, answers what it is asked of its
// requests, and ends when in does. It takes so long to answer a request, whatever
// else it is asked meanwhile.
func serveCore(ctx context.Context, takes time.Duration, in io.Reader, out io.Writer) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return fmt.Errorf("say the address: %w", err)
	}
	came := &requests{start: time.Now()}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn, takes, came)
		}
	}()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		n, took := came.count.Load(), came.last.Load()-came.first.Load()
		if _, err := fmt.Fprintln(out, n, took); err != nil {
			return fmt.Errorf("tell: %w", err)
		}
		if lines.Text() == "true" {
			came.count.Store(0)
		}
	}
	return listener.Close()
}

// answer answers each request, until the connection ends: that it was done, and that
// it is canceled.
func answer(conn net.Conn, takes time.Duration, came *requests) {
	defer func() { _ = conn.Close() }()
	answers, err := templates()
	if err != nil {
		return
	}
	request := make([]byte, telegram.RequestLength)
	for {
		if _, err := io.ReadFull(conn, request); err != nil {
			return
		}
		reply, ok := answers[telegram.MTI(request)]
		if !ok {
			return
		}
		came.came()
		if takes > 0 {
			<-time.After(takes)
		}
		copy(reply[idAt:idEnd], request[idAt:idEnd])
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// templates are the answers by the type of their request. Only the ID is missing.
func templates() (map[string][]byte, error) {
	id, words := transactionID(0), frame.Text{Value: "정상"}
	status, err := telegram.StatusAnswer{TranID: id, Processed: done, ResponseCode: frame.Done, Message: words}.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	cancel, err := telegram.CancelAnswer{TranID: id, CancelResult: done, ResponseCode: frame.Done, Message: words}.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{telegram.StatusRequestMTI: status, telegram.CancelRequestMTI: cancel}, nil
}
