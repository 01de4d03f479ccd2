package child

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends a process with this one, however that ends, and gives it a
// group of its own, so that Ctrl-C reaches it through Stop alone.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
}
