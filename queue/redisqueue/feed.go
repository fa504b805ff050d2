package redisqueue

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/ingot-run/ingot/queue"
)

const (
	// maxPause is the maximum time for which a result waits for other results, so that they are recorded together.
	maxPause = 50 * time.Millisecond
	// A worker takes some rows ahead: they wait in its engine until a running row ends. It takes as many rows ahead as its engine computes
	// in aheadTime. These are few if rows take long, so that no other worker is without rows for long at the end of a batch.
	aheadTime = 100 * time.Millisecond
	// minAheadShare sets the minimum number of rows ahead: the number of rows that the engine computes at once, divided by minAheadShare.
	minAheadShare = 4
	// announcedPoll is the minimum time between two requests to the empty queue of Interactive jobs. Their arrival is announced; only those
	// that return to the queue are not.
	announcedPoll = 2 * time.Second
	// maxGroup is the maximum number of results, and the maximum number of tasks, in one round trip.
	maxGroup = 128
	// maxGroupBytes limits the wait for other results: once the results have this total size in bytes, they are recorded.
	maxGroupBytes = 512 << 10
)

// feed takes tasks from queues for a number of handlers. In one round trip, it records the results of rows, begins the tasks of the reserve, and
// requests tasks for the reserve. So many rows share a round trip. A result waits a moment for other results while rows are being answered.
type feed struct {
	server   *server
	queues   map[string]int // weight of each queue
	strict   bool
	handlers int           // maximum number of tasks at once, without the reserve
	ahead    int           // how many of these tasks may wait in the engine
	poll     time.Duration // time between two requests while the queues are empty

	tasks   chan *held    // tasks for free handlers
	reserve []*held       // tasks that were taken and not begun; only run uses them
	wake    chan struct{} // signals that there are results to record or handlers that need tasks
	full    chan struct{} // signals that the results are to be recorded at once

	mu      sync.Mutex
	held    int // tasks that were taken and whose handlers have not returned
	ending  int // held tasks with results, whose handlers will soon be free
	results []toRecord
	bytes   int           // total size of results in bytes
	mean    time.Duration // mean time that a handler needs for a result
	asks    int           // number of calls of ask
	next    time.Time     // time of the next request for tasks if the queues were empty; zero if they were not
}

// newFeed returns a feed for a number of handlers. At most ahead handlers have rows that wait in the engine.
func (s *server) newFeed(o queue.ServeOptions, queues map[string]int, handlers, ahead int) *feed {
	return &feed{
		server: s, queues: queues, strict: o.Strict, handlers: handlers, ahead: ahead, poll: o.PollInterval,
		next: time.Now(), tasks: make(chan *held, 2*handlers), wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
}

// run takes tasks until ctx is done, and records results until ended is closed.
func (f *feed) run(ctx context.Context, ended <-chan struct{}) {
	poll := time.NewTimer(0)
	defer poll.Stop()
	stopping := ctx.Done()
	var returning sync.WaitGroup
	defer returning.Wait()
	for {
		select {
		case <-ended:
			f.returnReserve()
			return
		case <-stopping:
			stopping = nil
			tasks := f.reserve
			f.reserve = nil
			returning.Go(func() { f.giveBack(tasks) }) // meanwhile, results are recorded
			continue
		case <-f.wake:
			f.wait()
		case <-poll.C:
		}
		f.round(ctx)
		poll.Reset(f.untilPoll(ctx))
	}
}

// noPoll means that no request is planned. The feed polls only while a handler is free and the last request found too few tasks. Otherwise
// the next request follows when wake signals that a handler is free.
const noPoll = time.Hour

// untilPoll returns the time until the next request for tasks.
func (f *feed) untilPoll(ctx context.Context) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || f.next.IsZero() || f.room() == 0 {
		return noPoll
	}
	return max(time.Until(f.next), 0)
}

// room returns the number of tasks to take now: for handlers that are free or will soon be free, and for the reserve. The caller holds the
// mutex.
func (f *feed) room() int { return max(f.limit()+f.reserved()-f.held+f.ending, 0) }

// limit returns the number of tasks that may run or wait in the engine at a time. The caller holds the mutex.
func (f *feed) limit() int { return f.handlers - f.ahead + f.rowsAhead() }

// rowsAhead returns the number of rows to take ahead. The caller holds the mutex.
func (f *feed) rowsAhead() int {
	computed := f.handlers - f.ahead
	n := min(f.ahead, computed/minAheadShare)
	if f.mean > 0 {
		n = max(n, int(min(time.Duration(f.ahead), time.Duration(computed)*aheadTime/f.mean)))
	}
	return n
}

// group returns how many results are enough to record them without waiting for other results: three quarters of the rows ahead. While they
// are recorded and more rows are taken, the engine still has the last quarter to compute. The caller holds the mutex.
func (f *feed) group() int { return min(max(1, f.rowsAhead()*3/4), maxGroup) }

// reserved returns how many tasks to hold in reserve: as many as results are recorded together. These tasks begin in the round trip that
// records the results. Without a reserve, they would need a second one. While rows take long, no tasks are taken for the reserve, since other
// workers could run them meanwhile. The caller holds the mutex.
func (f *feed) reserved() int {
	if f.ahead == 0 || f.mean == 0 {
		return 0
	}
	return min(f.group(), int(time.Duration(f.limit())*maxPause/f.mean)) // the second number is how many results are expected in maxPause
}

// due removes from the reserve the tasks for which handlers are free or will soon be free, and returns them.
func (f *feed) due() []*held {
	f.mu.Lock()
	free := f.free()
	f.mu.Unlock()
	n := max(min(free, len(f.reserve)), 0)
	tasks := f.reserve[:n]
	f.reserve = f.reserve[n:]
	return tasks
}

// free returns the number of handlers that are free or will soon be free. Tasks of the reserve have no handlers. The caller holds the mutex.
func (f *feed) free() int { return f.limit() - (f.held - f.ending - len(f.reserve)) }

// isShort reports whether the engine lacks more than a quarter of the rows ahead. If it lacks fewer, it still has enough rows when the next
// group of results is recorded.
func (f *feed) isShort() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.free() > f.rowsAhead()/4
}

// wait waits for more results, so that they are recorded together. It returns after a pause, or when f.full receives a signal.
func (f *feed) wait() {
	f.mu.Lock()
	pause := min(f.mean*time.Duration(f.group())/time.Duration(f.limit()), maxPause) // the time in which a group of results is expected
	if f.isFull() {
		pause = 0
	}
	f.mu.Unlock()
	if pause == 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.full:
	}
}

// isFull reports whether the results should be recorded now, without waiting for other results. The caller holds the mutex.
func (f *feed) isFull() bool {
	return len(f.results) >= f.group() || f.bytes >= maxGroupBytes || f.held-f.ending == 0
}

// record records a result together with other results. It returns the reply of record.lua for the row, or an error.
func (f *feed) record(ctx context.Context, r toRecord) any {
	r.reply = make(chan any, 1)
	f.mu.Lock()
	f.results = append(f.results, r)
	f.bytes += r.size()
	if !r.held.ending {
		r.held.ending = true
		f.ending++
		f.mean += (time.Since(r.held.since) - f.mean) / 8
	}
	full := f.isFull()
	f.mu.Unlock()
	signal(f.wake)
	if full {
		signal(f.full)
	}
	select {
	case reply := <-r.reply:
		return reply
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end removes a task whose handler has become free.
func (f *feed) end(h *held) {
	f.mu.Lock()
	f.held--
	if h.ending {
		f.ending--
	} else {
		defer signal(f.wake) // record has not signalled that this handler is free
	}
	full := f.isFull()
	f.mu.Unlock()
	if full {
		signal(f.full)
	}
}

// ask makes the feed request tasks now, even if its queues were empty.
func (f *feed) ask() {
	f.mu.Lock()
	f.asks++
	f.next = time.Time{}
	f.mu.Unlock()
	signal(f.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// round records results, begins tasks of the reserve and takes tasks, in one round trip. If the engine would be short of rows, tasks that were
// taken begin at once, in a second round trip.
func (f *feed) round(ctx context.Context) {
	f.mu.Lock()
	select {
	case <-f.full:
	default:
	}
	results := f.results
	if len(results) > maxGroup {
		results = results[:maxGroup]
		signal(f.wake)
	}
	f.results = slices.Clone(f.results[len(results):])
	f.bytes = 0
	for _, r := range f.results {
		f.bytes += r.size()
	}
	wanted, asks := 0, f.asks
	if ctx.Err() == nil && !f.server.returning.Load() && !time.Now().Before(f.next) {
		if wanted = f.room(); wanted > maxGroup {
			wanted = maxGroup
			signal(f.wake)
		}
	}
	f.mu.Unlock()
	s := f.server
	var calls []scriptCall
	if len(results) > 0 {
		calls = append(calls, scriptCall{recordScript, recordArgs(results)})
	}
	var due []*held
	if ctx.Err() == nil {
		due = f.due()
	}
	admitted := s.admitAll(due)
	if len(admitted.rows) > 0 {
		calls = append(calls, scriptCall{beginScript, admitted.args()})
	}
	lease := time.Now().Add(asynqLease)
	if wanted > 0 {
		calls = append(calls, scriptCall{takeScript, f.takeArgs(lease, wanted)})
	}
	var replies []*redis.Cmd
	if len(calls) > 0 {
		replies = runScripts(context.WithoutCancel(ctx), s.queue.rdb, calls)
	}
	if len(results) > 0 {
		rows, err := replies[0].Slice()
		for i, r := range results {
			r.reply <- replyTo(rows, i, err)
		}
		replies = replies[1:]
	}
	if len(admitted.rows) > 0 {
		admitted.begun(replies[0].Slice())
		replies = replies[1:]
	}
	f.start(ctx, due)
	if wanted > 0 {
		f.taken(ctx, replies[0], wanted, asks, lease)
	}
}

// takeArgs returns the arguments of take.lua.
func (f *feed) takeArgs(lease time.Time, n int) []any {
	queues := slices.Sorted(maps.Keys(f.queues))
	args := make([]any, 0, 2+len(queues)+n)
	args = append(args, lease.Unix(), len(queues))
	for _, queue := range queues {
		args = append(args, queue)
	}
	for range n {
		args = append(args, f.order(queues))
	}
	return args
}

// order returns the order in which queues are tried until one has a task: their numbers, from 1, as digits, such as "213". The order is
// random according to the weights, or by decreasing weight if the feed is strict.
func (f *feed) order(queues []string) string {
	if len(queues) == 1 {
		return "1"
	}
	turns := make([]float64, len(queues))
	order := make([]int, len(queues))
	for i, queue := range queues {
		order[i], turns[i] = i, 1/float64(f.queues[queue])
		if !f.strict {
			turns[i] *= rand.ExpFloat64()
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(turns[a], turns[b]) })
	digits := make([]byte, len(order))
	for i, queue := range order {
		digits[i] = byte('1' + queue)
	}
	return string(digits)
}

// taken adds tasks to the reserve, and starts them if the engine is short of rows. If there are fewer tasks than wanted, the queues are empty,
// and the feed waits before the next request. It does not wait if ask was called after the request began. asks is the value of f.asks when
// the request began.
func (f *feed) taken(ctx context.Context, reply *redis.Cmd, wanted, asks int, lease time.Time) {
	s := f.server
	list, err := reply.StringSlice()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.member.outage.failed("could not take rows", failure(err, "run take.lua"))
	} else {
		s.queue.answers.fetch.now()
	}
	n := len(list) / 3
	f.mu.Lock()
	f.held += n
	f.next = time.Time{}
	if n < wanted && f.asks == asks {
		f.next = time.Now().Add(f.poll/2 + rand.N(f.poll+1))
	}
	f.mu.Unlock()
	for row := range slices.Chunk(list, 3) {
		h := s.member.hold(s.deliveries, row[0], row[1], lease)
		h.feed, h.message = f, row[2]
		h.job, h.unread = h.read()
		f.reserve = append(f.reserve, h)
	}
	if ctx.Err() != nil {
		f.returnReserve()
		return
	}
	if f.isShort() { // a second round trip
		due := f.due()
		s.beginAll(context.WithoutCancel(ctx), due)
		f.start(ctx, due)
	}
}

// start passes tasks to the handlers. If the feed stops, they return to their queues.
func (f *feed) start(ctx context.Context, tasks []*held) {
	if ctx.Err() != nil {
		f.giveBack(tasks)
		return
	}
	for _, h := range tasks {
		f.tasks <- h
	}
}

// giveBack returns tasks that no handler has received to the heads of their queues, in the order in which they were there.
func (f *feed) giveBack(tasks []*held) {
	for _, h := range slices.Backward(tasks) {
		f.server.giveBack(h)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held -= len(tasks)
}

// returnReserve returns the tasks of the reserve to their queues.
func (f *feed) returnReserve() {
	tasks := f.reserve
	f.reserve = nil
	f.giveBack(tasks)
}

// work passes tasks to the handler until ctx is done.
func (f *feed) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case h := <-f.tasks:
			if ctx.Err() != nil {
				f.server.giveBack(h)
				return
			}
			f.mu.Lock()
			h.since = time.Now()
			f.mu.Unlock()
			f.server.process(h)
			f.end(h)
		}
	}
}

// returnTasks returns to their queues the tasks that no handler has received.
func (f *feed) returnTasks() {
	for {
		select {
		case h := <-f.tasks:
			f.server.giveBack(h)
		default:
			return
		}
	}
}

// asynqClient is the Redis client of asynq's server. Feeds take the tasks, so asynq's own requests for a task get the reply that there is
// none.
type asynqClient struct {
	redis.UniversalClient
	stopping <-chan struct{}
	// subscriptions has the connection of asynq's subscription. asynq panics if this connection is closed before asynq has stopped. While
	// Redis is unreachable, asynq may stop later than Serve returns.
	subscriptions *redis.Client
}

// newAsynqClient returns a client that blocks requests for a task until stopping is closed.
func newAsynqClient(c redis.UniversalClient, stopping <-chan struct{}) asynqClient {
	one, ok := c.(*redis.Client)
	if !ok {
		return asynqClient{c, stopping, nil}
	}
	options := *one.Options()
	// The copied options point to a configuration that connections of c may still change. The new client gets its own.
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return asynqClient{c, stopping, redis.NewClient(&options)}
}

// Subscribe implements redis.UniversalClient.
func (c asynqClient) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	if c.subscriptions == nil {
		return c.UniversalClient.Subscribe(ctx, channels...)
	}
	return c.subscriptions.Subscribe(ctx, channels...)
}

// closeSubscriptions closes the connection of asynq's subscription. Call it only after asynq has stopped.
func (c asynqClient) closeSubscriptions() {
	if c.subscriptions != nil {
		c.subscriptions.Close() //nolint:errcheck // nothing uses it any longer
	}
}

// EvalSha implements redis.UniversalClient.
func (c asynqClient) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if !isFetch(keys) {
		return c.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	<-c.stopping
	none := redis.NewCmd(ctx)
	none.SetErr(redis.Nil)
	return none
}

// isFetch recognises asynq's request for a task by its first keys: the pending tasks of a queue and its pause.
func isFetch(keys []string) bool {
	return len(keys) > 1 && strings.HasSuffix(keys[0], "}:pending") && strings.HasSuffix(keys[1], "}:paused")
}
