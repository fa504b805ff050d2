package taskcode

import (
	"os"
	"os/exec"
	"syscall"
)

// sandboxed returns a command that runs in a network namespace of its own, which has no network,
// and is the first process of a PID namespace: processes in there cannot end others, and end with
// it.
func sandboxed(cmd *exec.Cmd) (*exec.Cmd, error) {
	cmd.SysProcAttr = namespaces(os.Getuid(), os.Getgid())
	return cmd, nil
}

// namespaces returns the attributes of a sandboxed process of a user.
func namespaces(uid, gid int) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID}
	if uid != 0 { // users other than root need a user namespace for that
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	return a
}
