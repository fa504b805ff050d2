package redisqueue

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slowConn is a connection of which each write or read takes a second.
type slowConn struct {
	net.Conn
	writes      []int
	read, write time.Time // deadlines
	fails       error
}

func (c *slowConn) Read([]byte) (int, error)           { <-time.After(time.Second); return 5, c.fails }
func (c *slowConn) SetReadDeadline(t time.Time) error  { c.read = t; return nil }
func (c *slowConn) SetWriteDeadline(t time.Time) error { c.write = t; return c.fails }

func (c *slowConn) SetDeadline(t time.Time) error {
	c.read, c.write = t, t
	return nil
}

func (c *slowConn) Write(p []byte) (int, error) {
	<-time.After(time.Second)
	c.writes = append(c.writes, len(p))
	return len(p), nil
}

// Each part of a request or reply renews the deadline. Before a reply is read, the system has time
// to send the request.
func TestDeadlinesOfASteadyConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		raw := new(slowConn)
		c := &steadyConn{Conn: raw}
		in := time.Until
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(3*time.Second)))
		require.Equal(t, 3*time.Second, in(raw.write))
		n, err := c.Write(make([]byte, 2*writeChunk+7))
		require.NoError(t, err)
		require.Equal(t, 2*writeChunk+7, n)
		require.Equal(t, []int{writeChunk, writeChunk, 7}, raw.writes)
		require.Equal(t, 2*time.Second, in(raw.write), "it was renewed before the last part")
		_, err = c.Write(make([]byte, 9))
		require.NoError(t, err)
		require.Equal(t, time.Second, in(raw.write), "a request of one part does not renew it")

		require.NoError(t, c.SetReadDeadline(time.Now().Add(4*time.Second)))
		sent := 2*writeChunk + 16
		require.Equal(t, 4*time.Second+time.Duration(sent)*time.Second/minSpeed, in(raw.read))
		n, err = c.Read(nil)
		require.NoError(t, err)
		require.Equal(t, 5, n)
		require.Equal(t, 4*time.Second, in(raw.read), "it was renewed by what was received")
		require.NoError(t, c.SetReadDeadline(time.Now().Add(4*time.Second)))
		require.Equal(t, 4*time.Second, in(raw.read), "nothing was sent since")

		require.NoError(t, c.SetDeadline(time.Now().Add(6*time.Second)))
		require.Equal(t, []time.Duration{6 * time.Second, 6 * time.Second}, []time.Duration{in(raw.read), in(raw.write)})
		_, err = c.Write(make([]byte, writeChunk+1))
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, in(raw.write))
		_, err = c.Read(nil)
		require.NoError(t, err)
		require.Equal(t, 6*time.Second, in(raw.read))

		require.NoError(t, c.SetReadDeadline(time.Time{}))
		require.NoError(t, c.SetWriteDeadline(time.Time{}))
		_, err = c.Read(nil)
		require.NoError(t, err)
		_, err = c.Write(make([]byte, 2*writeChunk))
		require.NoError(t, err)
		require.True(t, raw.read.IsZero() && raw.write.IsZero(), "there is no deadline to renew")

		require.NoError(t, c.SetDeadline(time.Now().Add(6*time.Second)))
		raw.fails = errors.New("closed")
		_, err = c.Read(nil)
		require.ErrorIs(t, err, raw.fails)
		require.Equal(t, 5*time.Second, in(raw.read), "an error renews nothing")
		n, err = c.Write(make([]byte, 2*writeChunk))
		require.ErrorIs(t, err, raw.fails)
		require.Equal(t, writeChunk, n)
	})
}
