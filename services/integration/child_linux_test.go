package integration

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes gives a child a process group of its own, so that Ctrl-C does
// not end it before its test, and ends it with this process, whatever ends that.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// hasStopped reports whether a child that was sent SIGSTOP runs no more, on any
// thread.
func hasStopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo == int32(unix.SIGCHLD)
}
