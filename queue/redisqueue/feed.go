package redisqueue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

// noRows is the failure that outage logs for requests for rows.
const noRows = "could not take rows"

// announcedPoll is the minimum time between two requests to the empty queue of Interactive jobs.
// Their arrival is announced; only those that return to the queue are not.
const announcedPoll = 2 * time.Second

// feed takes rows from queues for a number of handlers. In one round trip, it records the results
// of rows, begins the rows of the reserve, and takes rows for the reserve. So many rows share a
// round trip. A result waits a moment for other results while rows are being answered.
type feed struct {
	server *server
	queues map[string]int // weight of each queue
	poll   time.Duration  // time between two requests while the queues are empty

	tasks   chan *delivery // rows for free handlers
	reserve []*delivery    // rows that were taken and not begun; only run uses them
	wake    chan struct{}  // signals that there are results to record or handlers that need rows
	full    chan struct{}  // signals that the results are to be recorded at once

	working sync.WaitGroup // handlers
	running sync.WaitGroup // run
	handled chan struct{}  // closed when all handlers have returned

	mu       sync.Mutex
	capacity capacity
	results  []toRecord
	bytes    int       // total size of results in bytes
	asks     int       // number of calls of ask
	next     time.Time // time of the next request for rows if the queues were empty; zero if they were not
}

func newFeed(s *server, queues map[string]int, running, prefetch int) *feed {
	return &feed{
		server: s, queues: queues, poll: s.queue.Leases.Poll,
		tasks: make(chan *delivery, 2*(running+prefetch)), wake: make(chan struct{}, 1), full: make(chan struct{}, 1), handled: make(chan struct{}),
		capacity: capacity{running: running, prefetch: prefetch}, next: time.Now(),
	}
}

// start takes rows and passes them to handlers until ctx is done.
func (f *feed) start(ctx context.Context) {
	f.running.Go(func() { f.run(ctx) })
	for range f.capacity.running + f.capacity.prefetch {
		f.working.Go(func() { f.work(ctx) })
	}
}

// shutdown waits for the handlers, which end after start's ctx, and returns the rows that no
// handler has received to their queues.
func (f *feed) shutdown() {
	f.working.Wait()
	close(f.handled)
	f.running.Wait()
	var left []*delivery
	for len(f.tasks) > 0 {
		left = append(left, <-f.tasks)
	}
	f.giveBack(left...)
}

// run takes rows until ctx is done, and records results until all handlers have returned.
func (f *feed) run(ctx context.Context) {
	poll := time.NewTimer(0)
	defer poll.Stop()
	stopping := ctx.Done()
	var returning sync.WaitGroup
	defer returning.Wait()
	for {
		select {
		case <-f.handled:
			f.returnReserve()
			return
		case <-stopping:
			stopping = nil
			tasks := f.reserve
			f.reserve = nil
			returning.Go(func() { f.giveBack(tasks...) }) // meanwhile, results are recorded
		case <-f.wake:
			f.wait()
		case <-poll.C:
		}
		f.round(ctx)
		poll.Reset(f.untilPoll(ctx))
	}
}

// noPoll means that no request is planned. The feed polls only while a handler is free and the last
// request found too few rows. Otherwise the next request follows when wake signals that a handler
// is free.
const noPoll = time.Hour

// untilPoll returns the time until the next request for rows.
func (f *feed) untilPoll(ctx context.Context) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || f.next.IsZero() || f.capacity.room() == 0 {
		return noPoll
	}
	return max(time.Until(f.next), 0)
}

// round records results, takes rows and begins rows of the reserve, in one round trip. If the
// engine would be short of rows, rows that were taken begin at once, in a second round trip.
func (f *feed) round(ctx context.Context) {
	f.mu.Lock()
	results, wanted, asks := f.nextResults(), f.wanted(ctx), f.asks
	f.mu.Unlock()
	var calls []*call
	if len(results) > 0 {
		calls = append(calls, recordCall(results))
	}
	if wanted > 0 {
		calls = append(calls, f.takeCall(wanted, asks))
	}
	f.begin(ctx, calls)
	f.mu.Lock()
	short := f.capacity.isShort(len(f.reserve))
	f.mu.Unlock()
	if short {
		f.begin(ctx, nil)
	}
	if ctx.Err() != nil {
		f.returnReserve()
	}
}

// begin begins the rows of the reserve for which handlers are free or will soon be free, in one
// round trip with other calls, and passes them to the handlers. A row that has to wait until it is
// admitted is begun by its handler.
func (f *feed) begin(ctx context.Context, calls []*call) {
	var due, admitted []*delivery
	if ctx.Err() == nil {
		due = f.due()
	}
	for _, d := range due {
		if d.job != nil && d.ctx.Err() == nil && f.server.admit(d, false) {
			admitted = append(admitted, d)
		}
	}
	if len(admitted) > 0 {
		calls = append(calls, f.server.begin(admitted))
	}
	if len(calls) > 0 {
		f.server.queue.runAll(context.WithoutCancel(ctx), calls...)
	}
	f.pass(ctx, due)
}

// wanted returns the number of rows to request now. The caller holds the mutex.
func (f *feed) wanted(ctx context.Context) int {
	if ctx.Err() != nil || f.server.returning.Load() || time.Now().Before(f.next) {
		return 0
	}
	n := f.capacity.room()
	if n > maxGroup {
		signal(f.wake)
	}
	return min(n, maxGroup)
}

// due removes from the reserve the rows for which handlers are free or will soon be free, and
// returns them.
func (f *feed) due() []*delivery {
	f.mu.Lock()
	free := f.capacity.free(len(f.reserve))
	f.mu.Unlock()
	n := max(min(free, len(f.reserve)), 0)
	tasks := f.reserve[:n]
	f.reserve = f.reserve[n:]
	return tasks
}

// takeCall returns a call that takes n rows. asks is the present value of f.asks.
func (f *feed) takeCall(n, asks int) *call {
	queues := slices.Sorted(maps.Keys(f.queues))
	c := with(takeScript, "queues", strings.Join(queues, " "), "context", f.server.options.Context).rows(n, "order")
	for range n {
		c.add(f.order(queues))
	}
	c.read = func(list []any, err error) { f.taken(list, err, n, asks) }
	return c
}

// order returns the order in which queues are tried until one has a row: their numbers, from 1, as
// digits, such as "213". The order is random according to the weights.
func (f *feed) order(queues []string) string {
	turns, digits := make([]float64, len(queues)), make([]byte, len(queues))
	for i, queue := range queues {
		turns[i], digits[i] = rand.ExpFloat64()/float64(f.queues[queue]), byte('1'+i)
	}
	slices.SortFunc(digits, func(a, b byte) int { return cmp.Compare(turns[a-'1'], turns[b-'1']) })
	return string(digits)
}

// taken adds rows to the reserve. If there are fewer rows than wanted, the queues are empty, and
// the feed waits before the next request. It does not wait if ask was called after the request
// began. asks is the value of f.asks when the request began.
func (f *feed) taken(list []any, err error, wanted, asks int) {
	s := f.server
	if err != nil {
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			err = fmt.Errorf("delete the key under asynq: or ingot: of queue %s that another program has overwritten: %w", strings.Join(slices.Sorted(maps.Keys(f.queues)), " or "), err)
		}
		s.member.outage.failed(noRows, failure(err, "run take.lua"))
	} else {
		s.member.outage.worked(noRows)
		s.queue.answers.fetch.Store(new(time.Now()))
	}
	for _, item := range list {
		f.reserve = append(f.reserve, s.hold(f, item))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity.held += len(list)
	f.next = time.Time{}
	if len(list) < wanted && f.asks == asks {
		f.next = time.Now().Add(f.poll/2 + rand.N(f.poll+1))
	}
}

// pass passes rows to the handlers. If the feed stops, they return to their queues.
func (f *feed) pass(ctx context.Context, rows []*delivery) {
	if ctx.Err() != nil {
		f.giveBack(rows...)
		return
	}
	for _, d := range rows {
		f.tasks <- d
	}
}

// work passes rows to the handler until ctx is done.
func (f *feed) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-f.tasks:
			if ctx.Err() != nil {
				f.giveBack(d)
				return
			}
			f.mu.Lock()
			d.since = time.Now()
			f.mu.Unlock()
			f.server.process(d)
			f.end(d)
		}
	}
}

// end removes a row whose handler has become free.
func (f *feed) end(d *delivery) {
	f.mu.Lock()
	f.capacity.held--
	if d.ending {
		f.capacity.ending--
	} else {
		defer signal(f.wake) // record has not signalled that this handler is free
	}
	full := f.isFull()
	f.mu.Unlock()
	if full {
		signal(f.full)
	}
}

// ask makes the feed request rows now, even if its queues were empty.
func (f *feed) ask() {
	f.mu.Lock()
	f.asks++
	f.next = time.Time{}
	f.mu.Unlock()
	signal(f.wake)
}

// giveBack returns rows that no handler has received to the heads of their queues, in the order in
// which they were there. Their attempts are not counted.
func (f *feed) giveBack(rows ...*delivery) {
	s := f.server
	for _, d := range slices.Backward(rows) {
		d.unadmit()
		s.member.release(context.WithoutCancel(s.deliveries), d)
		s.finish(d, ending{place: head, uncount: d.begun})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity.held -= len(rows)
}

// returnReserve returns the rows of the reserve to their queues.
func (f *feed) returnReserve() {
	f.giveBack(f.reserve...)
	f.reserve = nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// newFeeds returns the feed of the queues of batches and, if the worker takes Interactive jobs, the
// feed of their queue.
func newFeeds(s *server) []*feed {
	o := s.options
	queues := map[string]int{}
	for p, weight := range queue.Priorities() {
		queues[queueName(o.Alias, p)] = weight
	}
	feeds := []*feed{newFeed(s, queues, o.Concurrency, o.Prefetch)}
	if o.Interactive > 0 {
		f := newFeed(s, map[string]int{queueName(o.Alias, queue.Interactive): 1}, o.Interactive, 0)
		f.poll = max(f.poll, announcedPoll)
		feeds = append(feeds, f)
	}
	return feeds
}
