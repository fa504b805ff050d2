package redistest

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// If the started program is not a server and ends at once, start reports its exit status.
func TestAServerThatEnds(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"true":  "redis-server ended before it was ready, without an error\n",
		"false": "redis-server ended before it was ready: exit status 1\n",
	} {
		binary, err := exec.LookPath(name)
		require.NoError(t, err)
		p := &Server{binary: binary, port: 1, dir: t.TempDir()}
		require.ErrorContains(t, p.start(t), want)
	}
}
