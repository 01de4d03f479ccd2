package postgrestest

import "syscall"

// dieWithParent has the kernel stop the server at once when this process is
// gone, however it went: a panic, a time-out of go test, a kill.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
