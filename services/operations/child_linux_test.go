package operations

import "syscall"

// childAttributes gives a child a process group of its own, so that Ctrl-C
// reaches it through stop alone, and ends it with its parent, whatever ends
// that.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
