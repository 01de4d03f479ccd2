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
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// coreArg makes this program the core; how long that takes to answer comes after it.
const coreArg = "core"

// idAt is where the transaction ID stands, in a request as in an answer.
const idAt, idEnd = 4, 4 + tranid.Length

// core is the core, a process of its own.
type core struct {
	addr  string
	takes time.Duration
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
}

// startCore starts one that takes so long to answer.
func startCore(ctx context.Context, takes time.Duration) (*core, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	c := &core{takes: takes, cmd: exec.CommandContext(ctx, self, coreArg, takes.String())}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read its address: %w", err), c.stop())
	}
	c.addr = strings.TrimSpace(line)
	return c, nil
}

func (c *core) stop() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

// tell asks how many requests came since it was asked to forget them, and how
// long it was from the first to the last.
func (c *core) tell(forget bool) (requests int64, took time.Duration, err error) {
	if _, err := fmt.Fprintln(c.in, forget); err != nil {
		return 0, 0, fmt.Errorf("ask the core: %w", err)
	}
	if _, err := fmt.Fscanln(c.out, &requests, &took); err != nil {
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
	id, done := transactionID(0), frame.Text{Value: "정상"}
	status, err := telegram.StatusAnswer{TranID: id, Processed: "01", ResponseCode: frame.Done, Message: done}.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	canceled, err := telegram.CancelAnswer{TranID: id, CancelResult: "01", ResponseCode: frame.Done, Message: done}.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{telegram.StatusRequestMTI: status, telegram.CancelRequestMTI: canceled}, nil
}
