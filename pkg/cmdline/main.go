package cmdline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Main runs a binary and never returns. The first SIGINT or SIGTERM cancels the
// context, and run should stop cleanly; a second one ends the process at once
// with 1, whatever run is waiting for. SIGHUP cancels too, except under nohup, and
// never counts as the second: terminals and sessions send several as they end. A
// log that nobody reads any more ends nothing: its lines are lost, and what is
// under way is not. An error of run is one line on stderr; ExitCode says how the
// process ends.
func Main(run func(ctx context.Context, args []string) error) {
	ctx, cancel := context.WithCancel(context.Background())
	stops, hangUps := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangUps, syscall.SIGHUP)
	}
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		<-hangUps
		cancel()
	}()
	go func() {
		<-stops
		cancel()
		<-stops
		slog.Warn("ended at once by a second signal")
		os.Exit(1)
	}()

	err := run(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, ErrHelp) && !errors.As(err, new(*loggedError)) {
		// If stderr is gone, the exit code still tells.
		_, _ = fmt.Fprintf(os.Stderr, "%s: %s\n", filepath.Base(os.Args[0]), oneLine(err.Error()))
	}
	os.Exit(ExitCode(err))
}

// Stopped is the last line of a binary's log: how it ended. What it returns is
// for run to return: Main then adds no line that is not the log's.
func Stopped(ctx context.Context, logger *slog.Logger, err error) error {
	if err == nil {
		logger.InfoContext(ctx, "stopped", "clean", true)
		return nil
	}
	logger.ErrorContext(ctx, "stopped", "clean", false, "error", err)
	return &loggedError{err}
}

// NotStarted is for run to return where a part of the binary could not be started.
// Where that is because a stop was asked for, it is a stop like any other.
func NotStarted(ctx context.Context, logger *slog.Logger, err error) error {
	if stopped := ctx.Err(); stopped != nil && errors.Is(err, stopped) {
		return Stopped(ctx, logger, nil)
	}
	return err
}

// loggedError is an error that the log has already.
type loggedError struct{ err error }

func (e *loggedError) Error() string { return e.err.Error() }

func (e *loggedError) Unwrap() error { return e.err }
