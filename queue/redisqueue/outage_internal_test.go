package redisqueue

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// An outage of Redis gives two lines of log, however many parts of a worker notice it.
func TestAnOutageIsTwoLines(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	o := &outage{log: log}
	lines := func() int { return strings.Count(text.String(), "\n") }
	over := func() {
		o.worked("could not take rows")
		o.worked("could not register this worker")
	}
	over()
	require.Zero(t, lines())
	for round := range 2 {
		for range 10 {
			o.failed("could not take rows", unavailable{errors.New("refused")})
			o.failed("could not register this worker", unavailable{errors.New("refused")})
		}
		require.Equal(t, 2*round+1, lines(), text.String())
		over()
		over()
		require.Equal(t, 2*round+2, lines(), text.String())
		require.Contains(t, text.String(), "errors=20")
	}
	for range 3 {
		o.failed("could not give up a row", queue.ErrNoBatch)
		o.failed("could not take rows", errors.New("WRONGTYPE"))
		require.Equal(t, 6, lines(), "an error that is no outage is logged once")
	}
	o.failed("could not give up a row", queue.ErrOtherFile)
	require.Equal(t, 7, lines(), "another error")
	o.worked("could not take rows")
	o.failed("could not take rows", errors.New("WRONGTYPE"))
	o.failed("could not give up a row", queue.ErrOtherFile)
	require.Equal(t, 8, lines(), "again after it worked")
	require.Equal(t, 2, strings.Count(text.String(), "can be used again"), "it was no outage")
}

// A search that fails is repeated soon while Redis cannot be used. After another error it waits for
// its next turn.
func TestWhichSearchesAreRepeated(t *testing.T) {
	t.Parallel()
	lost, broken := unavailable{io.EOF}, errors.New("broken")
	for name, c := range map[string]struct {
		errors []error // of the calls
		calls  int
	}{
		"found":                     {[]error{nil, nil}, 1},
		"an outage":                 {[]error{lost, lost, nil, nil}, 3},
		"another error":             {[]error{broken, nil}, 1},
		"another after an outage":   {[]error{lost, broken, nil}, 2},
		"the end during an outage":  {[]error{lost, context.Canceled, nil}, 2},
		"the end in the first call": {[]error{context.Canceled, nil}, 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		o := &outage{log: slog.New(slog.DiscardHandler)}
		search := o.search(time.Hour, time.Millisecond, "could not look", func(context.Context) error {
			err := c.errors[calls]
			calls++
			if errors.Is(err, context.Canceled) {
				cancel()
			}
			return err
		})
		search.do(ctx)
		require.Equal(t, c.calls, calls, name)
		cancel()
	}
}

// partly fails pipelines of scripts, in which rows are taken and recorded, but not heartbeats.
type partly struct {
	sleeper
	fails, beats atomic.Int64 // number of failed pipelines, and of other commands
	over         atomic.Bool
}

func (p *partly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.beats.Add(1)
		return next(ctx, cmd)
	}
}

func (p *partly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if p.over.Load() || cmds[0].Name() != "evalsha" {
			return next(ctx, cmds)
		}
		p.fails.Add(1)
		return io.EOF
	}
}

// An outage does not end with the first write that succeeds, but when all that failed works again.
func TestAnOutageEndsWhenAllWorksAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	client := redis.NewClient(f.redis.Client.Options())
	t.Cleanup(func() { client.Close() })
	p := new(partly)
	q := New(client)
	client.AddHook(p)
	q.Leases = shortLeases
	log, logged := newLog()
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		err := q.Serve(ctx, queue.ServeOptions{Alias: "m", Concurrency: 1, Logger: log}, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
			return answer(ctx, d, "ok")
		})
		if err != nil {
			t.Error(err)
		}
	})
	defer serving.Wait()
	defer stop()
	f.eventually("the worker could not take rows", func() bool { return p.fails.Load() > 3 })
	begun := p.beats.Load()
	f.eventually("heartbeats were sent", func() bool { return p.beats.Load() > begun+10 })
	require.Equal(t, 1, strings.Count(logged(), "\n"), logged())
	p.over.Store(true)
	f.eventually("the outage is over", func() bool { return strings.Contains(logged(), "redis can be used again") })
	f.eventually("the row is recorded", func() bool { return len(f.recorded("b")) == 1 })
	require.Equal(t, 2, strings.Count(logged(), "\n"), logged())
}

// A key of the queue that another program has overwritten is logged once by each search for rows,
// and the worker continues when it is deleted.
func TestAnOverwrittenKeyIsLoggedOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	pending := asynqKey("m:default", "pending")
	require.NoError(t, f.queue.rdb.Rename(ctx, pending, "aside").Err())
	require.NoError(t, f.queue.rdb.Set(ctx, pending, "x", 0).Err())
	log, logged := newLog()
	f.queue.Leases = shortLeases
	tries := new(tries)
	f.queue.rdb.AddHook(tries)
	var serving sync.WaitGroup
	serving.Go(func() {
		err := f.queue.Serve(ctx, queue.ServeOptions{Alias: "m", Concurrency: 1, Logger: log}, func(ctx context.Context, d *queue.Delivery) queue.Outcome {
			return answer(ctx, d, "ok")
		})
		if err != nil {
			t.Error(err)
		}
	})
	defer serving.Wait()
	defer stop()
	f.eventually("the worker tries again", func() bool { return tries.failed.Load() > 20 })
	require.Equal(t, 1, strings.Count(logged(), noRows), logged())
	require.Contains(t, logged(), "delete the key under asynq: or ingot: of queue m:bulk or m:critical or m:default")
	require.LessOrEqual(t, strings.Count(logged(), "\n"), 3, logged())
	require.NoError(t, f.redis.Client.Rename(ctx, "aside", pending).Err())
	f.eventually("the row is recorded", func() bool { return len(f.recorded("b")) == 1 })
}

// tries counts scripts that failed.
type tries struct {
	sleeper
	failed atomic.Int64
}

func (c *tries) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err != nil {
			c.failed.Add(1)
		}
		return err
	}
}

// newLog returns a log, and a function that returns its text so far.
func newLog() (log *slog.Logger, logged func() string) {
	var mu sync.Mutex
	var text bytes.Buffer
	log = slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(b)
	}), nil))
	return log, func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
