package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/redistest"
	"github.com/ingot-run/ingot/openai"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	const s = time.Second
	type look struct {
		at     time.Duration
		beats  map[string]string
		silent []string
	}
	a, b := map[string]string{"x": "1"}, map[string]string{"x": "2"}
	for name, looks := range map[string][]look{
		"a worker that beats":     {{0, a, nil}, {2 * s, b, nil}, {4 * s, a, nil}, {6 * s, b, nil}, {8 * s, a, nil}, {10 * s, b, nil}, {12 * s, a, nil}},
		"a silent worker":         {{0, a, nil}, {4 * s, a, nil}, {8 * s, a, nil}, {11 * s, a, nil}, {12 * s, a, []string{"x"}}, {14 * s, a, []string{"x"}}},
		"counted from its change": {{0, a, nil}, {4 * s, b, nil}, {8 * s, b, nil}, {12 * s, b, nil}, {15 * s, b, nil}, {16 * s, b, []string{"x"}}},
		"the watch slept":         {{0, a, nil}, {4 * s, a, nil}, {40 * s, a, nil}, {44 * s, a, nil}, {48 * s, a, nil}, {52 * s, a, []string{"x"}}},
		"a worker that left":      {{0, a, nil}, {6 * s, nil, nil}, {11 * s, a, nil}, {16 * s, a, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch{Leases: Leases{Beat: 2 * s, Silence: 12 * s}}
			start := time.Now()
			for _, l := range looks {
				require.Equal(t, l.silent, w.look(start.Add(l.at), l.beats), "after %v", l.at)
			}
		})
	}
}

func TestDeliveryIDs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := delivery{
			batch:  rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,9}`).Draw(t, "batch"),
			line:   rapid.IntRange(1, 1<<40).Draw(t, "line"),
			number: rapid.IntRange(0, 99).Draw(t, "number"),
		}
		got, ok := parseDelivery(want.id())
		require.True(t, ok)
		require.Equal(t, want, got)
	})
	for _, id := range []string{"", "b", "b:", "b:0", "b:-1", "b:x", "b:1:", "b:1:0", "b:1:-1", "b:01", "b:1:2:3", ":1", "a b:1", "6f2b1e1e-2c54-4b8e-9d76-0242ac120002"} {
		_, ok := parseDelivery(id)
		require.False(t, ok, id)
	}
}

// fleet is workers of one Redis, with short leases.
type fleet struct {
	t     testing.TB
	redis *redistest.Server
	queue *Queue // of nobody: to look from outside
}

// shortLeases are short, but long enough that no live worker is declared lost on a loaded machine.
var shortLeases = Leases{Beat: 50 * time.Millisecond, Silence: 3 * time.Second}

func newFleet(t testing.TB, rows int) *fleet {
	t.Helper()
	r := redistest.Start(t)
	f := &fleet{t, r, New(r.Client)}
	f.enqueue("b", 1, rows)
	return f
}

func (f *fleet) enqueue(batch string, first, last int) {
	f.t.Helper()
	_, _, err := f.queue.Create(f.t.Context(), job.Batch{ID: batch, Alias: "m", Priority: job.Default, Retention: time.Hour})
	require.NoError(f.t, err)
	for line := first; line <= last; line++ {
		j := &job.Job{Batch: batch, Line: line, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte(`{}`), TimeoutMS: 60_000, MaxAttempts: 3}
		added, err := f.queue.Add(f.t.Context(), "m", job.Default, []*job.Job{j})
		require.NoError(f.t, err)
		require.Equal(f.t, []bool{true}, added)
	}
}

// sleeper is a worker that can be put to sleep: then nothing that it sends reaches Redis until it wakes.
type sleeper struct {
	queue *Queue
	stop  func()

	mu     sync.Mutex
	asleep chan struct{} // closed when it wakes; nil while it is awake
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

// serve starts a worker. Its handler gets the worker's own queue.
func (f *fleet) serve(concurrency int, handle func(ctx context.Context, q *Queue, j *job.Job) error) *sleeper {
	f.t.Helper()
	client := redis.NewClient(f.redis.Client.Options())
	s := &sleeper{queue: New(client)}
	client.AddHook(s)
	s.queue.Leases = shortLeases
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	var err error
	var serving sync.WaitGroup
	serving.Go(func() {
		err = s.queue.Serve(ctx, job.ServeOptions{
			Alias: "m", Concurrency: concurrency, ShutdownTimeout: time.Millisecond, PollInterval: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		}, func(ctx context.Context, j *job.Job) error { return handle(ctx, s.queue, j) })
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

// answer begins and records a row, as a worker does.
func answer(ctx context.Context, q *Queue, j *job.Job, text string) error {
	_, err := q.Begin(ctx, j)
	if errors.Is(err, job.ErrRecorded) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = q.Record(ctx, j.Batch, job.Result{Sum: "0badcafe", Line: j.Line, Delivery: j.Delivery, Text: []byte(text)})
	return err
}

func (f *fleet) eventually(what string, condition func() bool) {
	f.t.Helper()
	require.Eventually(f.t, condition, time.Minute, time.Millisecond, what)
}

// recorded returns the results of batch b by line.
func (f *fleet) recorded(batch string) map[int]string {
	f.t.Helper()
	rows, err := f.queue.Read(f.t.Context(), batch, job.Page{Count: 1000, MaxBytes: 1 << 20, Want: func(int) bool { return true }})
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

// The rows of a worker that falls silent go to another, before those that were queued later and in their order. When the worker
// wakes, it cannot change these rows any longer: neither with its results nor with asynq's steps after its handlers return.
func TestASleepingWorkerLosesItsRows(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{"record", "fail", "hand back"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			const rows = 4
			f := newFleet(t, rows)
			begun, goOn := make(chan int, rows), make(chan struct{})
			late := make(chan error, rows)
			a := f.serve(rows, func(ctx context.Context, q *Queue, j *job.Job) error {
				start, err := q.Begin(ctx, j)
				if err != nil {
					return err
				}
				begun <- start.Attempt
				<-goOn
				switch outcome {
				case "record":
					_, err = q.Record(context.WithoutCancel(ctx), "b", job.Result{Sum: "0badcafe", Line: j.Line, Delivery: j.Delivery, Text: []byte("late")})
					late <- errors.Join(err, q.SaveCheckpoint(context.WithoutCancel(ctx), j, []byte("late")))
					return err
				case "fail":
					late <- job.ErrSuperseded
					return errors.New("broken")
				}
				late <- job.ErrSuperseded
				return errors.Join(job.ErrHandedBack, q.Release(context.WithoutCancel(ctx), j))
			})
			for range rows {
				require.Equal(t, 1, <-begun)
			}
			a.sleep()
			f.enqueue("later", 1, 2)

			var mu sync.Mutex
			var order []string
			held := make(chan struct{})
			b := f.serve(1, func(ctx context.Context, q *Queue, j *job.Job) error {
				mu.Lock()
				order = append(order, fmt.Sprint(j.Batch, " ", j.Line, " ", j.Delivery, " ", j.Deaths))
				mu.Unlock()
				if j.Batch == "later" && j.Line == 1 && len(order) == 1 {
					<-held // until the rows of the sleeper are back
				}
				return answer(ctx, q, j, "by the other")
			})
			f.eventually("the rows are in the queue again", func() bool {
				n, err := f.queue.rdb.HLen(t.Context(), key("b", "deliveries")).Result()
				require.NoError(t, err)
				return n == rows
			})
			close(held)
			f.eventually("all is recorded", func() bool { return len(f.recorded("b")) == rows && len(f.recorded("later")) == 2 })
			mu.Lock()
			require.Contains(t, [][]string{
				{"later 1 0 0", "b 1 1 1", "b 2 1 1", "b 3 1 1", "b 4 1 1", "later 2 0 0"},
				{"later 1 0 0", "later 2 0 0", "b 1 1 1", "b 2 1 1", "b 3 1 1", "b 4 1 1"}, // it took two before the rows were back
			}, order)
			mu.Unlock()

			a.wake()
			close(goOn)
			for range rows {
				if err := <-late; outcome == "record" {
					require.NoError(t, err, "a late result of a recorded row is ignored")
				}
			}
			a.stop()
			b.stop()
			f.requireEmptyQueue()
			for _, text := range f.recorded("b") {
				require.Equal(t, "by the other", text)
			}
			for _, name := range []string{"attempts", "deliveries", "deaths", "checkpoints"} {
				n, err := f.queue.rdb.Exists(t.Context(), key("b", name)).Result()
				require.NoError(t, err)
				require.Zero(t, n, "%s holds nothing about recorded rows", name)
			}
		})
	}
}

// While the other worker runs a row, what the one that slept does with it changes nothing, and the row stays in the queue: it is there
// if the second worker dies too.
func TestALateWriteDoesNotEndTheNewDelivery(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	begun, goOn := make(chan struct{}, 1), make(chan struct{})
	late := make(chan error, 3)
	a := f.serve(1, func(ctx context.Context, q *Queue, j *job.Job) error {
		_, err := q.Begin(ctx, j)
		if err != nil {
			return err
		}
		begun <- struct{}{}
		<-goOn
		_, err = q.Record(context.WithoutCancel(ctx), "b", job.Result{Sum: "0badcafe", Line: j.Line, Delivery: j.Delivery, Text: []byte("late")})
		late <- err
		late <- q.SaveCheckpoint(context.WithoutCancel(ctx), j, []byte("late"))
		late <- q.Release(context.WithoutCancel(ctx), j)
		return nil // as if all were well: asynq removes the task
	})
	<-begun
	a.sleep()
	running, finish := make(chan struct{}, 1), make(chan struct{})
	b := f.serve(1, func(ctx context.Context, q *Queue, j *job.Job) error {
		if _, err := q.Begin(ctx, j); err != nil {
			return err
		}
		running <- struct{}{}
		<-finish
		_, err := q.Record(ctx, "b", job.Result{Sum: "0badcafe", Line: 1, Delivery: j.Delivery, Text: []byte("by the other")})
		return err
	})
	<-running
	a.wake()
	close(goOn)
	require.ErrorIs(t, <-late, job.ErrSuperseded)
	require.ErrorIs(t, <-late, job.ErrSuperseded)
	require.NoError(t, <-late)
	a.stop()
	info, err := f.queue.inspector.GetTaskInfo("m:default", "b:1:1")
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStateActive, info.State)
	require.Empty(t, f.recorded("b"))
	st, err := f.queue.Status(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, 1, st.Running)
	n, err := f.queue.numbers(t.Context(), "b", 1)
	require.NoError(t, err)
	require.Equal(t, []int{1}, n)
	close(finish)
	f.eventually("it is recorded", func() bool { return f.recorded("b")[1] == "by the other" })
	b.stop()
	f.requireEmptyQueue()
}

// A worker that only slept takes back the deaths that were counted for it, and goes on under another id.
func TestASleepIsNoDeath(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	a := f.serve(1, func(ctx context.Context, q *Queue, j *job.Job) error {
		if j.Delivery > 0 {
			return answer(ctx, q, j, "after its sleep")
		}
		if _, err := q.Begin(ctx, j); err != nil {
			return err
		}
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return job.ErrDeliveryEnded
	})
	<-begun
	id := func() string {
		all, err := f.queue.Fleet(t.Context())
		require.NoError(t, err)
		for _, w := range all {
			if w.Live() && w.Rows > 0 {
				return w.ID
			}
		}
		return ""
	}
	f.eventually("its record has the row", func() bool { return id() != "" })
	before := id()
	a.sleep()
	r := newReaper(f.queue, new(member), "m", slog.New(slog.DiscardHandler))
	r.watch.Leases = shortLeases
	r.queue.Leases = shortLeases
	f.eventually("the row is taken from it", func() bool {
		require.NoError(t, r.look(t.Context()))
		n, err := f.queue.deaths(t.Context(), delivery{"b", 1, 0})
		require.NoError(t, err)
		return n == 1
	})
	a.wake()
	<-ended
	f.eventually("it answers the row", func() bool { return f.recorded("b")[1] == "after its sleep" })
	all, err := f.queue.Fleet(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, w := range all {
		require.Equal(t, w.ID == before, !w.Live(), "lost under its old id")
		require.Equal(t, []string{"m"}, w.Aliases)
		require.False(t, w.Beat.IsZero())
	}
	n, err := f.queue.Workers(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	a.stop()
	f.requireEmptyQueue()
	all, err = f.queue.Fleet(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1, "one that stops in order leaves no record")
}

// A task that was taken by a worker that died before it owned it goes back to the queue, and does not count as a death.
func TestAnOrphanGoesBackToTheQueue(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	ctx := t.Context()
	// What asynq does when it takes a task.
	for _, id := range []string{"b:1", "b:2"} {
		require.Equal(t, id, f.queue.rdb.RPopLPush(ctx, pendingKey("m:default"), asynqKey("m:default", "active")).Val())
		require.NoError(t, f.queue.rdb.HSet(ctx, taskPrefix("m:default")+id, "state", "active").Err())
		require.NoError(t, f.queue.rdb.ZAdd(ctx, asynqKey("m:default", "lease"), redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: id}).Err())
	}
	var mu sync.Mutex
	deliveries := map[int]string{}
	f.serve(1, func(ctx context.Context, q *Queue, j *job.Job) error {
		mu.Lock()
		defer mu.Unlock()
		deliveries[j.Line] = fmt.Sprint(j.Delivery, " ", j.Deaths)
		return answer(ctx, q, j, "found")
	})
	f.eventually("both are answered", func() bool { return len(f.recorded("b")) == 2 })
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[int]string{1: "1 0", 2: "1 0"}, deliveries)
}

// A worker comes back between the two steps of a hand-over, and asynq queues its old task again: the row is delivered all the same.
func TestAWorkerThatComesBackInAHandOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	var once sync.Once
	numbers := make(chan int, 9)
	f.serve(1, func(ctx context.Context, q *Queue, j *job.Job) error {
		numbers <- j.Delivery
		first := false
		once.Do(func() { first = true })
		if !first {
			return answer(ctx, q, j, "answered")
		}
		if _, err := q.Begin(ctx, j); err != nil {
			return err
		}
		n, err := revokeScript.Run(ctx, q.rdb, keys("b", "meta", "done", "attempts", "deliveries", "deaths"), 1, 0, 1).Int()
		require.NoError(t, err)
		require.Equal(t, 1, n)
		return job.ErrDeliveryEnded
	})
	f.eventually("it is answered", func() bool { return f.recorded("b")[1] == "answered" })
	require.Equal(t, []int{0, 0, 1}, []int{<-numbers, <-numbers, <-numbers})
	f.requireEmptyQueue()
}

// Deaths and attempts are counted apart, and a row that is queued again is the present delivery.
func TestDeathsAreNotAttempts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ctx, q := t.Context(), f.queue
	j := &job.Job{Batch: "b", Line: 1}
	take := func() {
		id := delivery{"b", 1, j.Delivery}.id()
		require.Equal(t, id, q.rdb.RPopLPush(ctx, pendingKey("m:default"), asynqKey("m:default", "active")).Val())
		require.NoError(t, q.rdb.HSet(ctx, taskPrefix("m:default")+id, "state", "active").Err())
		held, err := q.hold(ctx, "m:default", delivery{"b", 1, j.Delivery}, "w")
		require.NoError(t, err)
		require.True(t, held)
	}
	handOver := func() bool {
		moved, err := q.handOver(ctx, "m:default", delivery{"b", 1, j.Delivery}, "w")
		require.NoError(t, err)
		return moved
	}
	deaths := func() int {
		n, err := q.deaths(ctx, delivery{"b", 1, j.Delivery})
		require.NoError(t, err)
		return n
	}
	take()
	require.True(t, handOver(), "taken, but not begun")
	require.Zero(t, deaths())
	for i := range 3 {
		j.Delivery++
		take()
		start, err := q.Begin(ctx, j)
		require.NoError(t, err)
		require.Equal(t, 1, start.Attempt)
		require.Equal(t, i, deaths())
		require.True(t, handOver())
		require.False(t, handOver(), "only once")
		require.Equal(t, i+1, deaths())
		_, err = q.Begin(ctx, j)
		require.ErrorIs(t, err, job.ErrSuperseded)
	}
	again := &job.Job{Batch: "b", Line: 1, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte(`{}`), TimeoutMS: 60_000, MaxAttempts: 3}
	added, err := q.Add(ctx, "m", job.Default, []*job.Job{again})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, added, "it is queued")
	_, err = q.inspector.DeleteAllPendingTasks("m:default")
	require.NoError(t, err)
	added, err = q.Add(ctx, "m", job.Default, []*job.Job{again})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, added, "it was lost")
	info, err := q.inspector.GetTaskInfo("m:default", "b:1:4")
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStatePending, info.State)
	j.Delivery = 4
	_, err = q.Begin(ctx, j)
	require.NoError(t, err)
}

// A delivery that ended while asynq's lease was over, so that asynq left its task in the list of running ones, goes back to the queue.
// Its worker lives, and no death is counted.
func TestADeliveryWithoutAnOwnerIsNoDeath(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ctx, q := t.Context(), f.queue
	d := delivery{"b", 1, 0}
	require.Equal(t, d.id(), q.rdb.RPopLPush(ctx, pendingKey("m:default"), asynqKey("m:default", "active")).Val())
	require.NoError(t, q.rdb.HSet(ctx, taskKey("m:default", d), "state", "active").Err())
	_, err := q.hold(ctx, "m:default", d, "w")
	require.NoError(t, err)
	_, err = q.Begin(ctx, &job.Job{Batch: "b", Line: 1})
	require.NoError(t, err)
	moved, err := q.handOver(ctx, "m:default", d, "")
	require.NoError(t, err)
	require.False(t, moved, "it has an owner")
	require.NoError(t, q.disown(ctx, "m:default", d, "another"))
	require.NoError(t, q.disown(ctx, "m:default", d, "w"))
	moved, err = q.handOver(ctx, "m:default", d, "")
	require.NoError(t, err)
	require.True(t, moved)
	n, err := q.deaths(ctx, d)
	require.NoError(t, err)
	require.Zero(t, n)
	start, err := q.Begin(ctx, &job.Job{Batch: "b", Line: 1, Delivery: 1})
	require.NoError(t, err)
	require.Equal(t, 2, start.Attempt, "a lost lease counts as an attempt")
}

// A worker that could not give up a row while Redis was away does so with its next beat. Otherwise the row would seem to be its own.
func TestARowIsGivenUpWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	client := redis.NewClient(f.redis.Client.Options())
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s := &sleeper{queue: New(client)}
	client.AddHook(s)
	s.queue.Leases = shortLeases
	m, err := s.queue.join(t.Context(), job.ServeOptions{Alias: "m", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	d := delivery{"b", 1, 0}
	owner := func() string {
		id, err := f.queue.rdb.HGet(t.Context(), taskKey("m:default", d), "owner").Result()
		require.True(t, err == nil || isNil(err), "%v", err)
		return id
	}
	require.NoError(t, f.queue.rdb.HSet(t.Context(), taskKey("m:default", d), "state", "active").Err())
	_, release, err := m.own(t.Context(), "m:default", d)
	require.NoError(t, err)
	require.Equal(t, m.worker(), owner())
	s.setCut(true)
	release(job.ErrDeliveryEnded)
	require.Equal(t, m.worker(), owner())
	m.settle(t.Context())
	require.Equal(t, m.worker(), owner())
	s.setCut(false)
	m.settle(t.Context())
	require.Empty(t, owner())
	require.Empty(t, m.debts)
}
