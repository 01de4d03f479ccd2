//go:build !linux

package postgrestest

import "syscall"

// dieWithParent does nothing where the kernel offers nothing: there, Main alone
// stops the server.
func dieWithParent(*syscall.SysProcAttr) {}
