package redistest

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that is no server ends at once, with an error or without.
func TestAServerThatEnds(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"true":  "redis-server ended before it was ready, without an error\n",
		"false": "redis-server ended before it was ready: exit status 1\n",
	} {
		binary, err := exec.LookPath(name)
		require.NoError(t, err)
		p := &process{binary: binary, port: 1, dir: t.TempDir()}
		require.ErrorContains(t, p.start(t), want)
	}
}
