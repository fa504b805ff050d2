package memqueue

import (
	"container/list"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// alias holds the jobs of a model alias. The queue's mutex guards its fields.
type alias struct {
	waiting map[queue.Priority]*turns
	tasks   map[row]*task // the tasks that are waiting, delayed or running
	weight  func(batch string) int
	arrived *sync.Cond // signalled when a task of a batch is added to waiting; broadcast when a call of Serve stops

	interactive *sync.Cond // like arrived, for tasks of priority Interactive
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
	failures int
}

func (t *task) row() row { return row{t.job.Batch, t.job.Line} }

// alias returns the jobs of a model alias.
func (q *Queue) alias(name string) *alias {
	a := q.aliases[name]
	if a == nil {
		a = &alias{waiting: map[queue.Priority]*turns{}, tasks: map[row]*task{}, weight: q.weight, arrived: sync.NewCond(&q.mu),
			interactive: sync.NewCond(&q.mu),
		}
		for _, p := range queue.AllPriorities() {
			a.waiting[p] = newTurns()
		}
		q.aliases[name] = a
	}
	return a
}

// holds reports whether there are jobs of a priority, waiting or not.
func (a *alias) holds(p queue.Priority) bool {
	for _, t := range a.tasks {
		if t.priority == p {
			return true
		}
	}
	return false
}

// Add implements queue.Queue.
func (q *Queue) Add(_ context.Context, name string, p queue.Priority, jobs []*queue.Job) (added []bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.alias(name)
	added = make([]bool, len(jobs))
	for i, j := range jobs {
		if b := q.batches[j.Batch]; b != nil {
			b.aliases[name] = true
		}
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
	if t.priority == queue.Interactive {
		a.interactive.Signal()
		return
	}
	a.arrived.Signal()
}

func (a *alias) remove(t *task) {
	delete(a.tasks, t.row())
	if t.waiting != nil {
		unlink(t)
	}
}

// drain removes the tasks of a batch, except those that are running.
func (a *alias) drain(batch string) {
	for _, t := range a.tasks {
		if t.job.Batch == batch && !t.running {
			a.remove(t)
		}
	}
}

// take waits for a task and takes it, or returns nil when ctx is done.
func (a *alias) take(ctx context.Context, strict bool) *task {
	a.arrived.L.Lock()
	defer a.arrived.L.Unlock()
	for ctx.Err() == nil {
		if waiting := a.choose(strict); waiting != nil {
			t := waiting.take(a.weight)
			t.running = true
			return t
		}
		a.arrived.Wait()
	}
	return nil
}

// takeInteractive is take for tasks of priority Interactive.
func (a *alias) takeInteractive(ctx context.Context) *task {
	a.interactive.L.Lock()
	defer a.interactive.L.Unlock()
	for ctx.Err() == nil {
		if waiting := a.waiting[queue.Interactive]; !waiting.empty() {
			t := waiting.take(a.weight)
			t.running = true
			return t
		}
		a.interactive.Wait()
	}
	return nil
}

// choose chooses one of the batch priorities that have waiting tasks: the highest if strict, otherwise one drawn by weight. It returns the
// tasks of that priority, or nil if no task waits.
func (a *alias) choose(strict bool) *turns {
	var chosen *turns
	sum := 0
	for _, p := range [...]queue.Priority{queue.Critical, queue.Default, queue.Bulk} {
		waiting := a.waiting[p]
		if waiting.empty() {
			continue
		}
		if strict {
			return waiting
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
		if a.tasks[t.row()] == t {
			a.put(t)
		}
	})
}
