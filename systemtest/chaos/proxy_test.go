package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo is a server behind a proxy that sends back the data that it receives.
type echo struct {
	*proxy
	received atomic.Int64 // bytes that reached the server
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	dir, err := os.MkdirTemp("", "chaos-") //nolint:usetesting // the path of a Unix socket must be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	ctx, cancel := context.WithCancel(t.Context())
	l, err := new(net.ListenConfig).Listen(ctx, "unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	p, err := newProxy(ctx, l.Addr().String())
	require.NoError(t, err)
	e := &echo{proxy: p}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				buffer := make([]byte, 100)
				for {
					n, err := c.Read(buffer)
					e.received.Add(int64(n))
					if err != nil {
						return
					}
					if _, err := c.Write(buffer[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	serving.Go(func() { p.serve(ctx) }) //nolint:errcheck // if serve fails, the test fails too
	t.Cleanup(func() {
		cancel()
		l.Close()
		serving.Wait()
	})
	return e
}

func (e *echo) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a word and returns the answer.
func ask(c net.Conn) (string, error) {
	if _, err := c.Write([]byte("word")); err != nil {
		return "", err
	}
	answer := make([]byte, 4)
	_, err := io.ReadFull(c, answer)
	return string(answer), err
}

func requireAnswer(t *testing.T, c net.Conn) {
	t.Helper()
	answer, err := ask(c)
	require.NoError(t, err)
	require.Equal(t, "word", answer)
}

func TestProxyDrops(t *testing.T) {
	e := startEcho(t)
	c := e.dial(t)
	requireAnswer(t, c)
	require.Equal(t, 1, e.drop())
	_, err := ask(c)
	require.Error(t, err)
	requireAnswer(t, e.dial(t))
}

func TestProxyRefuses(t *testing.T) {
	e := startEcho(t)
	c := e.dial(t)
	requireAnswer(t, c)
	undoFirst, undoSecond := e.refuse(), e.refuse()
	_, err := ask(c)
	require.Error(t, err)
	undoFirst()
	if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.listener.Addr().String()); err == nil {
		_, err = ask(c)
		require.Error(t, err)
	}
	undoSecond()
	requireAnswer(t, e.dial(t))
}

// If a reply is lost, its command has still reached the server.
func TestProxyLosesReplies(t *testing.T) {
	e := startEcho(t)
	c := e.dial(t)
	undo := e.loseReplies()
	_, err := ask(c)
	require.Error(t, err)
	require.EqualValues(t, 4, e.received.Load())
	undo()
	requireAnswer(t, e.dial(t))
}

func TestProxyStalls(t *testing.T) {
	e := startEcho(t)
	c := e.dial(t)
	requireAnswer(t, c)
	undo := e.stall()
	answered := make(chan error)
	go func() {
		_, err := ask(c)
		answered <- err
	}()
	require.Never(t, func() bool { return e.received.Load() > 4 }, 50*time.Millisecond, time.Millisecond)
	undo()
	require.NoError(t, <-answered)
}
