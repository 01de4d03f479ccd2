//go:build !linux

package operations

import "syscall"

// childAttributes gives a child a process group of its own, so that Ctrl-C
// reaches it through stop alone.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
