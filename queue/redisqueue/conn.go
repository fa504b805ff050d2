package redisqueue

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// writeChunk is the number of bytes of a request that must be written within one timeout.
	writeChunk = 64 << 10
	// minSpeed is the speed, in bytes per second, at which the operating system is expected to send
	// a written request.
	minSpeed = 1 << 20
)

// dialSteady changes the meaning of o's timeouts: they limit the time without progress instead of
// the time of a whole request or reply. A result of many megabytes then passes through a slow link,
// and a server that does not answer is still noticed.
func dialSteady(o *redis.Options) {
	dial := redis.NewDialer(o)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		steady := &steadyConn{Conn: c}
		if raw, ok := c.(syscall.Conn); ok {
			return steadyRawConn{steady, raw}, nil
		}
		return steady, nil
	}
}

// steadyConn is a connection that renews its deadline whenever part of a request or reply was sent
// or received.
type steadyConn struct {
	net.Conn
	read, write atomic.Int64 // timeouts as time.Duration; none if they are not positive
	sent        atomic.Int64 // bytes written since the last byte was read
}

// steadyRawConn is a steadyConn with access to its socket. The client uses the socket to check
// whether the server has closed the connection.
type steadyRawConn struct {
	*steadyConn
	syscall.Conn
}

// Read implements net.Conn.
func (c *steadyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.sent.Store(0)
	if d := time.Duration(c.read.Load()); d > 0 && n > 0 && err == nil {
		err = c.Conn.SetReadDeadline(time.Now().Add(d))
	}
	return n, err
}

// Write implements net.Conn.
func (c *steadyConn) Write(p []byte) (written int, err error) {
	for {
		n, err := c.Conn.Write(p[written:min(written+writeChunk, len(p))])
		written += n
		c.sent.Add(int64(n))
		if err != nil || written == len(p) {
			return written, err
		}
		if d := time.Duration(c.write.Load()); d > 0 {
			if err := c.Conn.SetWriteDeadline(time.Now().Add(d)); err != nil {
				return written, err
			}
		}
	}
}

// SetDeadline implements net.Conn.
func (c *steadyConn) SetDeadline(t time.Time) error {
	remember(&c.read, t)
	remember(&c.write, t)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn. It extends the deadline by the time that the system needs to
// send the written request at minSpeed.
func (c *steadyConn) SetReadDeadline(t time.Time) error {
	remember(&c.read, t)
	if !t.IsZero() {
		t = t.Add(time.Duration(c.sent.Load()) * time.Second / minSpeed)
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *steadyConn) SetWriteDeadline(t time.Time) error {
	remember(&c.write, t)
	return c.Conn.SetWriteDeadline(t)
}

// remember stores the time until a deadline; a negative one if there is no deadline.
func remember(d *atomic.Int64, t time.Time) { d.Store(int64(time.Until(t))) }
