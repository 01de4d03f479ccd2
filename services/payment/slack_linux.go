package main

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// timerSlack is how much later than a thread asked for Linux may wake it. A
	// deadline may be late by as much; the shortest of ours are some hundred times
	// as long, and Go rounds its own waits to milliseconds.
	timerSlack = 500 * time.Microsecond
	// slackTaken is a variable that is set for the process that has begun again.
	slackTaken = "TIMER_SLACK_TAKEN"
)

// takeSlack gives the threads of this process more timer slack than the 50 us that
// they have. Go's monitor thread asks to be woken after 20 us, again and again, as
// long as anything runs: that is a tenth of what payments cost the processor.
//
// A thread inherits its slack, and the monitor is there before main is. Slack
// outlives exec, so the process begins again, once: with the same PID, arguments
// and files. It goes on as it is where it was given as much already, as by
// TimerSlackNSec of systemd, and where any step fails.
func takeSlack() {
	begun := os.Getenv(slackTaken) != ""
	_ = os.Unsetenv(slackTaken) // it is nobody else's
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if begun || slack() >= timerSlack || !setSlack(timerSlack) {
		return
	}
	path, err := os.Executable()
	if err != nil {
		return
	}
	// Go gives back the limit of files that it has raised before it executes anything.
	var files unix.Rlimit
	raised := unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil
	_ = syscall.Exec(path, os.Args, append(os.Environ(), slackTaken+"=1"))
	if raised {
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
	}
}

// slack is that of the calling thread.
func slack() time.Duration {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0
	}
	return time.Duration(ns)
}

// setSlack sets that of the calling thread, and reports whether it is set: a
// real-time thread keeps none.
func setSlack(to time.Duration) bool {
	return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(to), 0, 0, 0) == nil && slack() == to
}
