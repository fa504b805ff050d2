package redisqueue

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
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
var shortLeases = Leases{Beat: 50 * time.Millisecond, Poll: 5 * time.Millisecond, Silence: 3 * time.Second, Stop: time.Minute}

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

func fleetJob(batch string, line int) *queue.Job {
	return &queue.Job{
		Batch: batch, Line: line, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte(`{}`), TimeoutMS: 60_000, MaxAttempts: 3,
	}
}

// sleeper is a worker that can be put to sleep. The commands of a sleeping worker reach Redis only
// when it wakes.
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
	if s.asleep != nil {
		close(s.asleep)
	}
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

func (s *sleeper) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (s *sleeper) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := s.wait(); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (s *sleeper) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := s.wait(); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

// serve starts a worker. The commands of its deliveries wait while the worker is asleep.
func (f *fleet) serve(concurrency int, handle queue.Handler) *sleeper {
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
			Alias: "m", Concurrency: concurrency, ShutdownTimeout: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		}, handle)
	})
	s.stop = sync.OnceFunc(func() {
		cancel()
		serving.Wait()
		require.NoError(f.t, client.Close())
	})
	f.t.Cleanup(func() {
		s.wake() // a worker that a failed test has left asleep could not stop
		s.stop()
		require.NoError(f.t, err)
	})
	return s
}

// receive returns the next value of a channel. It fails the test if none comes.
func receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		require.Fail(t, "nothing has arrived within a minute")
	}
	return v
}

// until waits until a channel is closed. It also returns when the test ends, so that the handlers
// of a failed test end too.
func until(t testing.TB, closed <-chan struct{}) {
	select {
	case <-closed:
	case <-t.Context().Done():
	}
}

// take takes the next row, whose line and delivery number must be the given ones, for a worker.
func (f *fleet) take(line, number int, worker string) *delivery {
	f.t.Helper()
	s := newServer(f.t.Context(), f.queue, serveAll(), nil)
	s.member.id = worker
	fd := newFeed(s, map[string]int{"m:default": 1}, 1, 0)
	list, err := f.queue.run(f.t.Context(), fd.takeCall(1, 0)).Slice()
	require.NoError(f.t, err)
	require.Len(f.t, list, 1)
	h := s.hold(fd, list[0])
	require.NoError(f.t, h.notAJob)
	require.Equal(f.t, []int{line, number}, []int{h.job.Line, h.number})
	return h
}

// begin begins a row, and returns the number of the attempt.
func (f *fleet) begin(h *delivery) (attempt int, err error) {
	f.t.Helper()
	h.begun, h.err = false, nil
	f.queue.runAll(f.t.Context(), h.feed.server.begin([]*delivery{h}))
	require.Equal(f.t, h.begun, h.err == nil)
	return h.value.Attempt, h.err
}

// member returns a worker that sends no heartbeats.
func (f *fleet) member(id string) *member {
	o := queue.ServeOptions{Alias: "m", Logger: slog.New(slog.DiscardHandler)}
	o.Defaults()
	m := newMember(f.queue, o)
	m.id = id
	return m
}

// reap hands over the rows whose workers are not alive, as a reaper does.
func (f *fleet) reap() {
	f.t.Helper()
	r := newReaper(f.queue, f.member(""), "m", slog.New(slog.DiscardHandler))
	require.NoError(f.t, r.handOver(f.t.Context(), 0))
}

// count returns a number of a line of batch b.
func (f *fleet) count(name string, line int) int {
	f.t.Helper()
	n, err := f.queue.rdb.HGet(f.t.Context(), key("b", name), strconv.Itoa(line)).Int()
	require.True(f.t, err == nil || isNil(err), "%v", err)
	return n
}

// requireNoTask checks that Redis has no task in any state.
func (f *fleet) requireNoTask() {
	f.t.Helper()
	require.Empty(f.t, f.redis.Client.Keys(f.t.Context(), "asynq:*:t:*").Val())
	for _, name := range []string{"active", "lease", "retry", "pending"} {
		require.Zero(f.t, f.redis.Client.Exists(f.t.Context(), asynqKey("m:default", name)).Val(), name)
	}
}

// answer records a row, as a worker does.
func answer(ctx context.Context, d *queue.Delivery, text string) queue.Outcome {
	_, err := d.Record(ctx, queue.Result{Sum: "0badcafe", Line: d.Line, Text: []byte(text)})
	if err != nil {
		return queue.Retry(0, err)
	}
	return queue.Done()
}

func (f *fleet) eventually(what string, condition func() bool) {
	f.t.Helper()
	require.Eventually(f.t, condition, time.Minute, time.Millisecond, what)
}

// recorded returns the results of batch b by line.
func (f *fleet) recorded(batch string) map[int]string {
	f.t.Helper()
	rows, err := f.queue.Read(f.t.Context(), batch, queue.Page{Count: 1000, MaxBytes: 1 << 20, Want: func(queue.Recording) bool { return true }})
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
