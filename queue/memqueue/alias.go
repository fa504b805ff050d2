package memqueue

import (
	"container/list"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// alias holds the jobs of a model alias. The queue's mutex guards its fields.
type alias struct {
	waiting map[queue.Priority]*turns
	tasks   map[row]*task // the tasks that are waiting, delayed or running
	longer  []*task       // tasks that were passed on to workers with a longer context; some may have been taken or removed since
	weight  func(batch string) int
	// These are signalled when a task is added to waiting, and broadcast when a call of Serve
	// stops.
	arrived, interactive *sync.Cond // for tasks of batches, and of priority Interactive
}

// row identifies a row.
type row struct {
	batch string
	line  int
}

// task is a job in the queue.
type task struct {
	job      *queue.Job
	priority queue.Priority
	list     *list.List    // the list in which the task waits; nil while it is running or waits for its retry
	waiting  *list.Element // element of the list
	running  bool
	context  int // of the worker that passed the task on; 0 if none did
}

func (t *task) row() row { return row{t.job.Batch, t.job.Line} }

// alias returns the jobs of a model alias.
func (q *Queue) alias(name string) *alias {
	a := q.aliases[name]
	if a == nil {
		a = &alias{
			waiting: map[queue.Priority]*turns{}, tasks: map[row]*task{}, weight: q.weight,
			arrived: sync.NewCond(&q.mu), interactive: sync.NewCond(&q.mu),
		}
		for _, p := range queue.AllPriorities() {
			a.waiting[p] = newTurns()
		}
		q.aliases[name] = a
	}
	return a
}

// Add implements queue.Queue.
func (q *Queue) Add(_ context.Context, name string, p queue.Priority, jobs []*queue.Job) (added []bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.alias(name)
	added = make([]bool, len(jobs))
	for i, j := range jobs {
		b, err := q.open(j.Batch, "", 0)
		if err != nil {
			return added, err
		}
		b.aliases[name] = true
		t := &task{job: j, priority: p}
		if known := a.tasks[t.row()]; known != nil {
			switch {
			case known.job.File == j.File:
				continue
			case known.running:
				return added, queue.ErrRowRunning
			}
			a.remove(known)
		}
		a.tasks[t.row()] = t
		a.put(t)
		added[i] = true
	}
	return added, nil
}

// put puts a task at the end of its batch.
func (a *alias) put(t *task) {
	a.waiting[t.priority].put(t)
	a.signal(t)
}

// putFirst puts a task at the head of its queue.
func (a *alias) putFirst(t *task) {
	a.waiting[t.priority].putFirst(t)
	a.signal(t)
}

// signal wakes one goroutine that waits to take a task.
func (a *alias) signal(t *task) {
	arrived := a.arrived
	if t.priority == queue.Interactive {
		arrived = a.interactive
	}
	arrived.Signal()
}

// wakeAll wakes all goroutines that wait to take a task.
func (a *alias) wakeAll() {
	a.arrived.Broadcast()
	a.interactive.Broadcast()
}

func (a *alias) remove(t *task) {
	delete(a.tasks, t.row())
	if t.waiting != nil {
		unlink(t)
	}
}

// take waits for a task of the priorities that choose returns and takes it, or returns nil when ctx
// is done or the server takes no more rows.
func (s *server) take(ctx context.Context, arrived *sync.Cond, choose func() *turns) *task {
	arrived.L.Lock()
	defer arrived.L.Unlock()
	for ctx.Err() == nil && !s.returning {
		if t := s.alias.takeLonger(s.options.Context, arrived == s.alias.interactive); t != nil {
			return t
		}
		if waiting := choose(); waiting != nil {
			t := waiting.take(s.alias.weight)
			t.running = true
			return t
		}
		arrived.Wait()
	}
	return nil
}

// passOn leaves a task to workers with a longer context, and after a delay to all. longest is the
// longest context of the workers.
func (a *alias) passOn(t *task, context, longest int, delay time.Duration) {
	t.context = context
	a.longer = append(a.longer, t)
	a.wakeAll()
	a.retryLater(t, delay)
	a.releaseLonger(longest)
}

// releaseLonger returns the tasks that were passed on to their batches if no worker has a longer
// context.
func (a *alias) releaseLonger(longest int) {
	a.purgeLonger()
	for _, t := range a.longer {
		if t.context >= longest {
			a.put(t)
		}
	}
}

// purgeLonger removes tasks that were taken or removed, or wait again, from those passed on.
func (a *alias) purgeLonger() {
	a.longer = slices.DeleteFunc(a.longer, func(t *task) bool { return a.tasks[t.row()] != t || t.running || t.waiting != nil })
}

// takeLonger takes a task that was passed on from a context shorter than the given one. It returns
// nil if there is none.
func (a *alias) takeLonger(context int, interactive bool) *task {
	a.purgeLonger()
	for i, t := range a.longer {
		if t.context < context && (t.priority == queue.Interactive) == interactive {
			a.longer = slices.Delete(a.longer, i, i+1)
			t.running = true
			return t
		}
	}
	return nil
}

// chooseInteractive returns the tasks of priority Interactive, or nil if none waits.
func (a *alias) chooseInteractive() *turns {
	if a.waiting[queue.Interactive].empty() {
		return nil
	}
	return a.waiting[queue.Interactive]
}

// choose chooses one of the batch priorities that have waiting tasks: one drawn by weight. It
// returns the tasks of that priority, or nil if no task waits.
func (a *alias) choose() *turns {
	var chosen *turns
	sum := 0
	for _, p := range [...]queue.Priority{queue.Critical, queue.Default, queue.Bulk} {
		waiting := a.waiting[p]
		if waiting.empty() {
			continue
		}
		weight := queue.Priorities()[p]
		if sum += weight; rand.IntN(sum) < weight {
			chosen = waiting
		}
	}
	return chosen
}

// retryLater puts a task at the end of its batch after a delay.
func (a *alias) retryLater(t *task, delay time.Duration) {
	time.AfterFunc(delay, func() {
		a.arrived.L.Lock()
		defer a.arrived.L.Unlock()
		if a.tasks[t.row()] == t && !t.running && t.waiting == nil { // it was not taken since
			a.put(t)
		}
	})
}
