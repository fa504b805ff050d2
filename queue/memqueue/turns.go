package memqueue

import "container/list"

// turns are the waiting tasks of one priority. Tasks that were handed back come first. The other
// tasks are in one list per batch, and the batches take turns: the next task comes from the batch
// whose next turn is the lowest number. This number then grows by 1/weight.
type turns struct {
	first   *list.List
	batches map[string]*turn
}

// turn is a batch with its waiting tasks.
type turn struct {
	tasks *list.List
	next  float64 // the number of the batch's next turn
}

func newTurns() *turns { return &turns{first: list.New(), batches: map[string]*turn{}} }

// put adds a task at the end of its batch. A batch that had no waiting tasks gets the lowest turn
// of the other batches.
func (w *turns) put(t *task) {
	id := t.job.Batch
	if w.batches[id] == nil {
		_, first := w.lowest()
		b := &turn{tasks: list.New()}
		if first != nil {
			b.next = first.next
		}
		w.batches[id] = b
	}
	t.list = w.batches[id].tasks
	t.waiting = t.list.PushBack(t)
}

// putFirst adds a task before all other tasks.
func (w *turns) putFirst(t *task) {
	t.list = w.first
	t.waiting = t.list.PushFront(t)
}

// take removes the next task. It returns nil if there is none. weight returns the weight of a
// batch.
func (w *turns) take(weight func(batch string) int) *task {
	if e := w.first.Front(); e != nil {
		return unlink(e.Value.(*task))
	}
	for {
		id, b := w.lowest()
		if b == nil {
			return nil
		}
		if e := b.tasks.Front(); e != nil {
			b.next += 1 / float64(weight(id))
			return unlink(e.Value.(*task))
		}
		delete(w.batches, id) // only now: a batch that is refilled before its next turn must not get an earlier turn
	}
}

// lowest returns the batch with the lowest turn; nil if there is no batch.
func (w *turns) lowest() (id string, b *turn) {
	for i, other := range w.batches {
		if b == nil || other.next < b.next || other.next == b.next && i < id {
			id, b = i, other
		}
	}
	return id, b
}

// empty reports whether no task waits.
func (w *turns) empty() bool {
	if w.first.Len() > 0 {
		return false
	}
	for _, b := range w.batches {
		if b.tasks.Len() > 0 {
			return false
		}
	}
	return true
}

// unlink removes a task from the list in which it waits.
func unlink(t *task) *task {
	t.list.Remove(t.waiting)
	t.list, t.waiting = nil, nil
	return t
}
