package worker

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// A worker that is stopped while Redis is unreachable ends within its shutdown timeout, although it
// has an answer that it cannot record.
func TestAWorkerWithoutRedisEndsInTime(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	taken, finish := make(chan struct{}), make(chan struct{})
	b := setUp(t, redisqueue.New(r.Client), func(context.Context, generation.Request) (generation.Completion, error) {
		close(taken)
		<-finish
		return generation.Completion{Choices: []generation.Choice{{Text: "ok"}}}, nil
	}, Config{Concurrency: 1, ShutdownTimeout: 100 * time.Millisecond})
	b.enqueue(t, prompts(1), enqueue.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.worker.Run(ctx) }()
	<-taken
	r.Stop()
	cancel()
	close(finish)
	start := time.Now()
	require.ErrorIs(t, <-ended, queue.ErrUnavailable, "the worker's record could not be removed from Redis")
	require.Less(t, time.Since(start), maxRecordWait/2)
}

// A worker that is stopped while its connections to Redis are stalled does not wait for their
// timeouts.
func TestAWorkerWithAStalledRedisEnds(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	addr, stall := stalling(t, strings.TrimSuffix(strings.TrimPrefix(r.URL, "redis://"), "/0"))
	q, _, err := redisqueue.Dial(t.Context(), "redis://"+addr+"/0?read_timeout=1h&write_timeout=1h", 1, nil)
	require.NoError(t, err)
	t.Cleanup(func() { q.Close() })
	q.Leases.Stop = 100 * time.Millisecond
	taken := make(chan struct{})
	b := setUp(t, q, func(ctx context.Context, _ generation.Request) (generation.Completion, error) {
		close(taken)
		<-ctx.Done()
		return generation.Completion{}, ctx.Err()
	}, Config{Concurrency: 1, ShutdownTimeout: 100 * time.Millisecond})
	b.worker.stopTimeout = 100 * time.Millisecond
	b.enqueue(t, prompts(1), enqueue.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.worker.Run(ctx) }()
	<-taken
	stall()
	cancel()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, queue.ErrUnavailable)
	case <-time.After(time.Minute):
		require.Fail(t, "the stopped worker still waits for Redis")
	}
}

// stalling returns the address of a proxy to a server. After a call of stall, the proxy forwards
// nothing but keeps its connections open.
func stalling(t *testing.T, server string) (addr string, stall func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	stalled := make(chan struct{})
	pass := func(to, from net.Conn) {
		part := make([]byte, 16<<10)
		for {
			n, err := from.Read(part)
			select {
			case <-stalled:
				<-t.Context().Done()
				err = io.EOF
			default:
			}
			if err == nil {
				_, err = to.Write(part[:n])
			}
			if err != nil {
				to.Close()
				from.Close()
				return
			}
		}
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
			if err != nil {
				in.Close()
				continue
			}
			go pass(out, in)
			go pass(in, out)
		}
	}()
	return l.Addr().String(), sync.OnceFunc(func() { close(stalled) })
}
