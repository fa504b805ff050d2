package redisqueue

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
)

// throttled returns the address of a proxy to a server. The proxy pauses after each part of the
// data, in both directions.
func throttled(t *testing.T, server string, part int, pause time.Duration) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	forward := func(to, from *net.TCPConn) {
		buffer := make([]byte, part)
		for tick := time.NewTicker(pause); ; <-tick.C {
			n, err := from.Read(buffer)
			if err == nil {
				_, err = to.Write(buffer[:n])
			}
			if err != nil {
				to.CloseWrite() //nolint:errcheck // the other side may have closed the connection
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
			if err != nil {
				c.Close()
				return
			}
			for _, conn := range []net.Conn{c, s} { // small buffers, since the kernel would otherwise take most of the data at once
				conn.(*net.TCPConn).SetReadBuffer(part)  //nolint:errcheck // without it, the link is still slow enough
				conn.(*net.TCPConn).SetWriteBuffer(part) //nolint:errcheck // likewise
			}
			go forward(s.(*net.TCPConn), c.(*net.TCPConn))
			go forward(c.(*net.TCPConn), s.(*net.TCPConn))
		}
	}()
	return l.Addr().String()
}

// A timeout limits the time without progress, so a value whose transfer takes longer than the
// timeout passes in both directions.
func TestALargeValuePassesThroughASlowLink(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	const part, parts = 128 << 10, 20
	const pause, timeout = 100 * time.Millisecond, time.Second // a transfer takes 2 s
	o := &redis.Options{
		Addr:        throttled(t, r.Client.Options().Addr, part, pause),
		ReadTimeout: timeout, WriteTimeout: timeout, MaxRetries: -1,
	}
	value := bytes.Repeat([]byte("0123456789abcdef"), part*parts/16)
	get := func(c *redis.Client) ([]byte, error) { return c.Get(t.Context(), "x").Bytes() }

	plain := redis.NewClient(o)
	t.Cleanup(func() { plain.Close() })
	require.NoError(t, r.Client.Set(t.Context(), "x", value, 0).Err())
	_, err := get(plain)
	require.ErrorContains(t, err, "timeout", "the link is slow")

	steadyOptions := *o
	dialSteady(&steadyOptions)
	steady := redis.NewClient(&steadyOptions)
	t.Cleanup(func() { steady.Close() })
	got, err := get(steady)
	require.NoError(t, err)
	require.True(t, bytes.Equal(value, got))
	require.NoError(t, steady.Set(t.Context(), "x", value, 0).Err())
}

// A server that does not answer is noticed after the timeout.
func TestASilentServerIsNoticed(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	o := &redis.Options{Addr: l.Addr().String(), ReadTimeout: 50 * time.Millisecond, MaxRetries: -1}
	dialSteady(o)
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	var timeout net.Error
	require.ErrorAs(t, c.Ping(t.Context()).Err(), &timeout)
	require.True(t, timeout.Timeout())
}
