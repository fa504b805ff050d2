package redisqueue_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

func TestDial(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	dial := func() (warnings []string) {
		t.Helper()
		c, warnings, err := redisqueue.Dial(t.Context(), r.URL, 1, nil)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		return warnings
	}
	require.Empty(t, dial())
	require.NoError(t, r.Client.ConfigSet(t.Context(), "appendonly", "no").Err())
	require.Equal(t, []string{"appendonly is off: jobs of the last minutes are lost when Redis stops suddenly"}, dial())
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	require.Contains(t, dial(), "maxmemory-policy is allkeys-lru: jobs are lost when memory runs out; set noeviction")

	_, _, err := redisqueue.Dial(t.Context(), "localhost:6379", 1, nil)
	require.ErrorContains(t, err, "redis URL")
	_, _, err = redisqueue.Dial(t.Context(), "redis://127.0.0.1:1", 1, nil) // a port that no test can be given
	require.ErrorContains(t, err, "reach redis at 127.0.0.1:1: ")
	require.ErrorContains(t, err, "(is it running there?)")
}

// What the Redis client logs is of no interest to users: its important parts are errors too.
func TestTheClientLogsAtDebugLevel(t *testing.T) { // it replaces the default logger
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	synctest.Test(t, func(t *testing.T) { // the client's pauses take no time
		_, _, err := redisqueue.Dial(t.Context(), "redis://127.0.0.1:1?max_retries=-1", 1, nil) // a port that no test can be given
		require.ErrorContains(t, err, "reach redis at 127.0.0.1:1: ")
	})
	require.Contains(t, log.String(), `from="redis client"`)
	require.Equal(t, strings.Count(log.String(), "\n"), strings.Count(log.String(), "level=DEBUG"))
}

// If a server refuses the URL, the error names what to change in it.
func TestDialSuggestsAnotherURL(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	addr := strings.TrimPrefix(r.URL, "redis://")
	require.NoError(t, r.Client.ConfigSet(t.Context(), "requirepass", "secret").Err())
	for url, want := range map[string]string{
		r.URL:                                  "NOAUTH Authentication required. (give user and password in the URL: redis://user:password@host:port",
		"redis://:wrong@" + addr:               "(give user and password in the URL: redis://user:password@host:port",
		"redis://" + answering(t, ""):          "(is it restarting? If it uses TLS, give a URL that begins with rediss://)",
		"rediss://" + answering(t, "-ERR\r\n"): "(does it use TLS? If not, give a URL that begins with redis://)",
	} {
		_, _, err := redisqueue.Dial(t.Context(), url, 1, nil)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "wrong@", "passwords stay out of errors")
	}
	c, _, err := redisqueue.Dial(t.Context(), "redis://:secret@"+addr, 1, nil)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// answering returns the address of a server that is not Redis: it sends reply to each client and
// closes the connection.
func answering(t *testing.T, reply string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.ReadAtLeast(c, make([]byte, 1), 1) //nolint:errcheck // the request is ignored
				io.WriteString(c, reply)              //nolint:errcheck // the client may have closed the connection
				c.(*net.TCPConn).CloseWrite()         //nolint:errcheck // likewise
				io.Copy(io.Discard, c)                //nolint:errcheck // a connection that is closed with unread data may lose the reply
				c.Close()
			}()
		}
	}()
	return l.Addr().String()
}
