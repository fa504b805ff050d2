package taskcode

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Root needs no user namespace; others are themselves in theirs.
func TestNamespacesOfUsers(t *testing.T) {
	t.Parallel()
	const both = syscall.CLONE_NEWNET | syscall.CLONE_NEWPID
	require.Equal(t, &syscall.SysProcAttr{Cloneflags: both}, namespaces(0, 0))
	require.Equal(t, &syscall.SysProcAttr{
		Cloneflags:  both | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: 1000, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 100, HostID: 100, Size: 1}},
	}, namespaces(1000, 100))
}
