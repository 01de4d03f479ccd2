package main

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

// child is a process of ours. Its log is a file, which costs this process
// nothing, however much is written.
type child struct {
	name, log string
	cmd       *exec.Cmd
	stopBy    os.Signal
	exited    chan struct{} // closed when it has ended; err is then how
	err       error
}

// launch starts a program.
func launch(name, log string, cmd *exec.Cmd) (*child, error) {
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
	c := &child{name: name, log: log, cmd: cmd, stopBy: syscall.SIGTERM, exited: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// listens waits until the log says where the process listens under that name.
func (c *child) listens(ctx context.Context, name string) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listensWithin)
	defer cancel()
	err = c.await(ctx, func() bool {
		text, err := os.ReadFile(c.log)
		if err == nil {
			addr = findAddress(text, name)
		}
		return addr != ""
	})
	return addr, err
}

// await waits until it is ready, or says why it will not be.
func (c *child) await(ctx context.Context, ready func() bool) error {
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

// findAddress looks for the line of a log that says where a service listens.
func findAddress(log []byte, name string) string {
	for line := range bytes.Lines(log) {
		var l struct{ Msg, Name, Address string }
		if json.Unmarshal(line, &l) == nil && l.Msg == "listening" && l.Name == name {
			return l.Address
		}
	}
	return ""
}

// stop ends the process, and says so if it did not end well.
func (c *child) stop() error {
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
