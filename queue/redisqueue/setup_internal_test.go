package redisqueue

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// fleet is a Redis server with workers that have short leases.
type fleet struct {
	t     testing.TB
	redis *redistest.Server
	queue *Queue // used by the test itself, not by a worker
}

// shortLeases are short, but long enough that no live worker is declared lost on a loaded machine.
var shortLeases = Leases{Beat: 50 * time.Millisecond, Silence: 3 * time.Second, Stop: time.Minute}

func newFleet(t testing.TB, rows int) *fleet {
	t.Helper()
	r := redistest.Start(t)
	f := &fleet{t, r, New(r.Client)}
	f.enqueue("b", 1, rows)
	return f
}

func (f *fleet) enqueue(batch string, first, last int) {
	f.t.Helper()
	_, _, err := f.queue.Create(f.t.Context(), queue.Batch{ID: batch, Alias: "m", Priority: queue.Default, Retention: time.Hour})
	require.NoError(f.t, err)
	for line := first; line <= last; line++ {
		added, err := f.queue.Add(f.t.Context(), "m", queue.Default, []*queue.Job{fleetJob(batch, line)})
		require.NoError(f.t, err)
		require.Equal(f.t, []bool{true}, added)
	}
}

// fleetJob is the job of a row.
func fleetJob(batch string, line int) *queue.Job {
	return &queue.Job{
		Batch: batch, Line: line, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte(`{}`), TimeoutMS: 60_000, MaxAttempts: 3,
	}
}

// sleeper is a worker that can be put to sleep. The commands of a sleeping worker reach Redis only when it wakes.
type sleeper struct {
	queue *Queue
	stop  func()

	mu     sync.Mutex
	asleep chan struct{} // closed when the worker wakes; nil while it is awake
	cut    bool          // all commands fail
}

func (s *sleeper) setCut(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
}

func (s *sleeper) sleep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep = make(chan struct{})
}

func (s *sleeper) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.asleep)
	s.asleep = nil
}

func (s *sleeper) wait() error {
	s.mu.Lock()
	asleep, cut := s.asleep, s.cut
	s.mu.Unlock()
	if asleep != nil {
		<-asleep
	}
	if cut {
		return errors.New("no connection")
	}
	return nil
}

// DialHook implements redis.Hook.
func (s *sleeper) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (s *sleeper) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := s.wait(); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (s *sleeper) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := s.wait(); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

// serve starts a worker. handle gets the worker's queue, whose commands wait while the worker is asleep.
func (f *fleet) serve(concurrency int, handle func(ctx context.Context, q *Queue, j *queue.Job) error) *sleeper {
	f.t.Helper()
	client := redis.NewClient(f.redis.Client.Options())
	s := &sleeper{queue: New(client)}
	client.AddHook(s)
	s.queue.Leases = shortLeases
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	var err error
	var serving sync.WaitGroup
	serving.Go(func() {
		err = s.queue.Serve(ctx, queue.ServeOptions{
			Alias: "m", Concurrency: concurrency, ShutdownTimeout: time.Millisecond, PollInterval: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		}, func(ctx context.Context, j *queue.Job) error { return handle(ctx, s.queue, j) })
	})
	s.stop = sync.OnceFunc(func() {
		cancel()
		serving.Wait()
		require.NoError(f.t, client.Close())
	})
	f.t.Cleanup(func() {
		s.stop()
		require.NoError(f.t, err)
	})
	return s
}

// take takes the next row and makes a worker its owner. The row must be the given delivery.
func (f *fleet) take(d delivery, worker string) {
	f.t.Helper()
	ctx := f.t.Context()
	leaseEnd := time.Now().Add(time.Hour).Unix()
	require.NoError(f.t, takeScript.Run(ctx, f.queue.rdb, nil, leaseEnd, 1, "m:default", "1").Err())
	require.Equal(f.t, []string{d.id()}, f.queue.rdb.LRange(ctx, asynqKey("m:default", "active"), 0, 0).Val())
	if worker == "" {
		return
	}
	owned, err := f.queue.own(ctx, "m:default", d, worker)
	require.NoError(f.t, err)
	require.True(f.t, owned)
}

// requireNoTask checks that Redis has no task in any state.
func (f *fleet) requireNoTask() {
	f.t.Helper()
	require.Empty(f.t, f.redis.Client.Keys(f.t.Context(), "asynq:*:t:*").Val())
	for _, name := range []string{"active", "lease", "retry", "pending"} {
		require.Zero(f.t, f.redis.Client.Exists(f.t.Context(), asynqKey("m:default", name)).Val(), name)
	}
}

// answer begins and records a row, as a worker does.
func answer(ctx context.Context, q *Queue, j *queue.Job, text string) error {
	_, err := q.Begin(ctx, j)
	if errors.Is(err, queue.ErrRecorded) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = q.Record(ctx, j.Batch, queue.Result{Sum: "0badcafe", Line: j.Line, Delivery: j.Delivery, Text: []byte(text)})
	return err
}

func (f *fleet) eventually(what string, condition func() bool) {
	f.t.Helper()
	require.Eventually(f.t, condition, time.Minute, time.Millisecond, what)
}

// recorded returns the results of batch b by line.
func (f *fleet) recorded(batch string) map[int]string {
	f.t.Helper()
	rows, err := f.queue.Read(f.t.Context(), batch, queue.Page{Count: 1000, MaxBytes: 1 << 20, Want: func(int) bool { return true }})
	require.NoError(f.t, err)
	texts := map[int]string{}
	for _, r := range rows {
		require.NotContains(f.t, texts, r.Line, "recorded twice")
		texts[r.Line] = string(r.Text)
	}
	return texts
}

// requireEmptyQueue waits until asynq holds no task.
func (f *fleet) requireEmptyQueue() {
	f.t.Helper()
	f.eventually("the queue is empty", func() bool {
		info, err := f.queue.inspector.GetQueueInfo("m:default")
		require.NoError(f.t, err)
		return info.Size == 0
	})
	for _, name := range []string{"active", "lease", "retry", "pending"} {
		n, err := f.queue.rdb.Exists(f.t.Context(), asynqKey("m:default", name)).Result()
		require.NoError(f.t, err)
		require.Zero(f.t, n, name)
	}
}
