//go:build !linux

package hardening

import "syscall"

// childAttributes gives a child a process group of its own, so that Ctrl-C does
// not end it before its test.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
