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
	// writeChunk is the number of bytes of a request that are written before the timeout starts again.
	writeChunk = 64 << 10
	// minSpeed is the speed, in bytes per second, at which a request is expected to leave the buffers of the system.
	minSpeed = 1 << 20
)

// dialSteady makes the connections of o steady: a timeout of o then limits the time without progress, instead of
// the time of a whole request or reply. So a result of many megabytes passes through a slow link, and a server that
// does not answer is still noticed.
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

// steadyConn is a connection that extends its deadlines by their original length with each part of the data that passes.
type steadyConn struct {
	net.Conn
	read, write atomic.Int64 // each is a time.Duration; 0 for no deadline
	sent        atomic.Int64 // bytes written since something was read
}

// steadyRawConn is a steadyConn whose connection the client can check for having been closed.
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

// SetReadDeadline implements net.Conn. A large request may still be on its way, so the reply also has the time that this takes.
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

func remember(d *atomic.Int64, t time.Time) {
	if t.IsZero() {
		d.Store(0)
		return
	}
	d.Store(int64(time.Until(t)))
}
