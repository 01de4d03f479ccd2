package cmdline_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
)

// TestMain makes the test binary a binary under Main when it is told to.
func TestMain(m *testing.M) {
	if end := os.Getenv("CMDLINE_TEST_END"); end != "" {
		cmdline.Main(func(ctx context.Context, args []string) error { return binary(ctx, args, end) })
	}
	goleak.VerifyTestMain(m)
}

// binary ends in the way it is told.
func binary(ctx context.Context, args []string, end string) error {
	switch end {
	case "ok":
		fmt.Println(strings.Join(args, " "))
		return nil
	case "help":
		return fmt.Errorf("parse: %w", cmdline.ErrHelp)
	case "usage":
		return cmdline.Usagef("--retries: bad\nvalue")
	case "logged":
		return fmt.Errorf("stop: %w", cmdline.Stopped(ctx, slog.New(slog.DiscardHandler), errors.New("rows were lost")))
	case "not started":
		return cmdline.NotStarted(ctx, slog.New(slog.DiscardHandler), errors.New("no ledger"))
	case "stopped at its start":
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return cmdline.NotStarted(ctx, slog.New(slog.DiscardHandler), fmt.Errorf("no ledger: %w", ctx.Err()))
	case "refused while it stopped":
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return cmdline.NotStarted(ctx, slog.New(slog.DiscardHandler), errors.New("another key"))
	case "failure":
		return errors.New("rows were\r\nlost")
	case "lines": // to a log whose reader goes away
		fmt.Println("first")
		bufio.NewScanner(os.Stdin).Scan()
		for range 3 {
			fmt.Println("more")
		}
		return nil
	case "stopping": // until its input ends
		fmt.Println("waiting")
		<-ctx.Done()
		fmt.Println("stopping")
		bufio.NewScanner(os.Stdin).Scan()
		return nil
	case "hang-up":
		fmt.Println("ignored:", signal.Ignored(syscall.SIGHUP))
		return nil
	case "signal":
		fmt.Println("waiting")
		<-ctx.Done()
		return nil
	default: // hangs whatever it is told
		fmt.Println("waiting")
		<-ctx.Done()
		fmt.Println("hanging")
		select {}
	}
}

func start(t *testing.T, end string, args ...string) (*exec.Cmd, *bufio.Scanner, *strings.Builder) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "CMDLINE_TEST_END="+end)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, bufio.NewScanner(stdout), &stderr
}

func TestMain_ExitCodeAndOneLineOnStderr(t *testing.T) {
	for _, c := range []struct {
		end    string
		code   int
		stderr string
	}{
		{"ok", 0, ""},
		{"help", 0, ""},
		{"usage", 2, ": --retries: bad value\n"},
		{"failure", 1, ": rows were  lost\n"},
		{"logged", 1, ""},
		{"not started", 1, ": no ledger\n"},
		{"stopped at its start", 0, ""},
		{"refused while it stopped", 1, ": another key\n"},
	} {
		t.Run(c.end, func(t *testing.T) {
			cmd, out, stderr := start(t, c.end, "a", "b")
			if c.end == "ok" && (!out.Scan() || out.Text() != "a b") {
				t.Errorf("the arguments are %q", out.Text())
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code is %d, want %d", got, c.code)
			}
			if got := stderr.String(); !strings.HasSuffix(got, c.stderr) || strings.Count(got, "\n") != strings.Count(c.stderr, "\n") {
				t.Errorf("stderr is %q, want one line that ends in %q", got, c.stderr)
			}
		})
	}
}

func TestMain_ASignalCancelsTheContext(t *testing.T) {
	hung := make(chan os.Signal, 1) // so that it is not ignored in what is started, either
	signal.Notify(hung, syscall.SIGHUP)
	defer signal.Stop(hung)
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		cmd, out, stderr := start(t, "signal")
		if !out.Scan() {
			t.Fatalf("it never began: %s", stderr)
		}
		if err := cmd.Process.Signal(sent); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("after %s: %v, %s", sent, err, stderr)
		}
	}
}

func TestMain_AHangUpThatIsIgnoredStaysSo(t *testing.T) {
	signal.Ignore(syscall.SIGHUP) // as nohup does it
	defer signal.Reset(syscall.SIGHUP)
	cmd, out, stderr := start(t, "hang-up")
	if !out.Scan() || out.Text() != "ignored: true" {
		t.Errorf("it said %q: %s", out.Text(), stderr)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A terminal that closes sends SIGHUP, its shell another, and a session that ends
// SIGTERM too: a clean stop goes on.
func TestMain_AHangUpIsNoSecondSignal(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CMDLINE_TEST_END=stopping")
	stdout, noOut := cmd.StdoutPipe()
	input, noInput := cmd.StdinPipe()
	if err := errors.Join(noOut, noInput, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	out := bufio.NewScanner(stdout)
	for _, says := range []string{"waiting", "stopping"} {
		if !out.Scan() || out.Text() != says {
			t.Fatalf("it said %q, want %q", out.Text(), says)
		}
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), input.Close()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended by the signals: %v", err)
	}
}

func TestMain_ALogThatNobodyReadsEndsNothing(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CMDLINE_TEST_END=lines")
	log, noLog := cmd.StdoutPipe()
	input, noInput := cmd.StdinPipe()
	if err := errors.Join(noLog, noInput, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if !bufio.NewScanner(log).Scan() {
		t.Fatal("it never began")
	}
	if err := errors.Join(log.Close(), input.Close()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended by what became of its log: %v", err)
	}
}

func TestMain_ASecondSignalEndsItAtOnce(t *testing.T) {
	cmd, out, stderr := start(t, "hang")
	for _, want := range []string{"waiting", "hanging"} {
		if !out.Scan() || out.Text() != want {
			t.Fatalf("said %q, want %q: %s", out.Text(), want, stderr)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 1 {
		t.Errorf("exit code is %d, want 1", got)
	}
}
