// Package redistest starts Redis servers for tests.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Server is a Redis server for one test. It starts empty and ends with the test.
type Server struct {
	URL    string
	Client *redis.Client
	Stop   func() // kills the server's process

	binary  string
	options []string
	port    int // 0 before the first start
	dir     string
}

// Start starts the machine's redis-server on a free port. The server writes every command to disk
// before it answers, so it can be killed without loss. options are added to its command line. Start
// skips the test if there is no redis-server.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server here, so nothing was tested against a real Redis: install it with apt-get install redis-server or brew install redis")
	}
	s := &Server{binary: binary, options: options, dir: t.TempDir()}
	s.mustStart(t)
	t.Cleanup(func() { s.Stop() })
	addr := fmt.Sprintf("127.0.0.1:%d", s.port)
	// The client repeats a command that times out, and the command can then run twice. The timeouts
	// are long, so that this does not happen on a slow machine.
	const maxWait = 5 * time.Minute
	s.URL = "redis://" + addr + "/0"
	s.Client = redis.NewClient(&redis.Options{Addr: addr, DialTimeout: maxWait, ReadTimeout: maxWait, WriteTimeout: maxWait})
	t.Cleanup(func() { require.NoError(t, s.Client.Close()) })
	return s
}

// tries is the maximum number of attempts to start a server. An attempt fails if another process
// takes the chosen port.
const tries = 5

// Restart kills the server's process and starts a new one with the same data and port.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	s.mustStart(t)
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // only the port is needed
	return l.Addr().(*net.TCPAddr).Port
}

// mustStart starts the server, in several attempts: on its port, or on a free one if it has none.
func (s *Server) mustStart(t testing.TB) {
	t.Helper()
	first, err := s.port == 0, error(nil)
	for range tries {
		if first {
			s.port = freePort(t)
		}
		if err = s.start(t); err == nil {
			return
		}
	}
	require.NoError(t, err, "start redis-server")
}

// start starts the server and returns once it reports that it is ready.
func (s *Server) start(t testing.TB) error {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), s.binary, append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction",
	}, s.options...)...)
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
		if !strings.Contains(lines.Text(), "Ready to accept connections") {
			continue
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for lines.Scan() {
			}
		}()
		s.Stop = sync.OnceFunc(func() {
			cmd.Process.Kill() //nolint:errcheck // it may have ended itself
			<-ended
			cmd.Wait() //nolint:errcheck // it was killed
		})
		return nil
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("redis-server ended before it was ready: %w\n%s", err, log.String())
	}
	return fmt.Errorf("redis-server ended before it was ready, without an error\n%s", log.String())
}
