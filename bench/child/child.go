// Package child runs the processes that a bench measures.
package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	// listensWithin is how long a service may take to listen.
	listensWithin = 60 * time.Second
	// stopsWithin is how long a process may take to stop before it is killed.
	stopsWithin = 20 * time.Second
	// lookEvery is how often a process is looked at that is about to be ready.
	lookEvery = 20 * time.Millisecond
)

// Process is a process of ours. Its log is a file, which costs this process
// nothing, however much is written.
type Process struct {
	name, log string
	cmd       *exec.Cmd
	stopBy    os.Signal
	exited    chan struct{} // closed when it has ended; err is then how
	err       error
}

// Launch starts a program, which ends with this process, and is stopped by SIGTERM.
// What it says is appended to the log.
func Launch(name, log string, cmd *exec.Cmd) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer func() { _ = file.Close() }() // the process has its own
	cmd.Stdout, cmd.Stderr = file, file
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &Process{name: name, log: log, cmd: cmd, stopBy: syscall.SIGTERM, exited: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// StopBy has it stopped by another signal.
func (c *Process) StopBy(signal os.Signal) { c.stopBy = signal }

// PID is its process ID.
func (c *Process) PID() int { return c.cmd.Process.Pid }

// Listens waits until the log says where the process listens under that name.
func (c *Process) Listens(ctx context.Context, name string) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listensWithin)
	defer cancel()
	err = c.Await(ctx, func() bool {
		text, err := os.ReadFile(c.log)
		if err == nil {
			addr = FindAddress(text, name)
		}
		return addr != ""
	})
	return addr, err
}

// Await waits until it is ready, or says why it will not be.
func (c *Process) Await(ctx context.Context, ready func() bool) error {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for !ready() {
		select {
		case <-again.C:
		case <-c.exited:
			log, _ := os.ReadFile(c.log) // what there is of it
			return fmt.Errorf("%s ended, %s: %s", c.name, c.cmd.ProcessState, bytes.TrimSpace(log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", c.name, ctx.Err())
		}
	}
	return nil
}

// FindAddress looks for the line of a log that says where a service listens; empty if
// there is none yet.
func FindAddress(log []byte, name string) string {
	for line := range bytes.Lines(log) {
		var l struct{ Msg, Name, Address string }
		if json.Unmarshal(line, &l) == nil && l.Msg == "listening" && l.Name == name {
			return l.Address
		}
	}
	return ""
}

// Stop ends the process, and says so if it did not end well.
func (c *Process) Stop() error {
	// An error means that it has ended by itself.
	_ = c.cmd.Process.Signal(c.stopBy)
	limit := time.NewTimer(stopsWithin)
	defer limit.Stop()
	select {
	case <-c.exited:
	case <-limit.C:
		_ = c.cmd.Process.Kill()
		<-c.exited
		return fmt.Errorf("%s did not stop in %v", c.name, stopsWithin)
	}
	if c.err != nil {
		return fmt.Errorf("%s did not end well: %w", c.name, c.err)
	}
	return nil
}
