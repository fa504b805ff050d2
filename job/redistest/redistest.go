// Package redistest starts Redis servers for tests: real ones, and miniredis.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Server is a Redis server of a test's own, empty at first and gone with the test.
type Server struct {
	URL    string
	Client *redis.Client
}

// Start starts the machine's redis-server on a free port. Without one it skips the test.
func Start(t testing.TB) *Server {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server here, so nothing was tested against a real Redis: install it with apt-get install redis-server or brew install redis")
	}
	const tries = 5 // another process may take the port that was free
	for try := 1; ; try++ {
		port := freePort(t)
		err := launch(t, binary, port)
		if err == nil {
			return connect(t, fmt.Sprintf("127.0.0.1:%d", port))
		}
		if try == tries {
			require.NoError(t, err, "start redis-server")
		}
	}
}

// StartMini starts a miniredis.
func StartMini(t testing.TB) *Server {
	t.Helper()
	return connect(t, miniredis.RunT(t).Addr())
}

// Both runs a test against a real Redis and against miniredis.
func Both(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, Start(t)) })
	t.Run("miniredis", func(t *testing.T) { t.Parallel(); test(t, StartMini(t)) })
}

func connect(t testing.TB, addr string) *Server {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return &Server{URL: "redis://" + addr + "/0", Client: c}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // the port is all that is wanted
	return l.Addr().(*net.TCPAddr).Port
}

// launch starts the server and returns once it says that it is ready.
func launch(t testing.TB, binary string, port int) error {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary,
		"--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", t.TempDir(),
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var log strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Fprintln(&log, lines.Text())
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				for lines.Scan() {
				}
			}()
			t.Cleanup(func() {
				cmd.Process.Kill() //nolint:errcheck // it may have ended itself
				<-drained
				cmd.Wait() //nolint:errcheck // it was killed
			})
			return nil
		}
	}
	return fmt.Errorf("redis-server ended: %w\n%s", cmd.Wait(), log.String())
}
