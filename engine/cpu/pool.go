package cpu

import (
	"sync"
	"sync/atomic"
)

// task is an operation cut into parts that may run on any thread in any order.
type task interface {
	// part does part i on the given thread.
	part(thread, i int)
}

// pool runs tasks on a fixed number of threads, the caller's among them.
type pool struct {
	start []chan struct{} // one a helper thread
	done  sync.WaitGroup
	task  task
	parts int32
	next  atomic.Int32
}

func newPool(threads int) *pool {
	p := &pool{start: make([]chan struct{}, threads-1)}
	for i := range p.start {
		p.start[i] = make(chan struct{}, 1)
		go p.help(i+1, p.start[i])
	}
	return p
}

// run does all parts of t and returns when they are done.
func (p *pool) run(t task, parts int) {
	p.task, p.parts = t, int32(parts)
	p.next.Store(0)
	helpers := min(len(p.start), parts-1)
	p.done.Add(max(helpers, 0))
	for i := range helpers {
		p.start[i] <- struct{}{}
	}
	p.work(0)
	p.done.Wait()
}

func (p *pool) work(thread int) {
	for i := p.next.Add(1) - 1; i < p.parts; i = p.next.Add(1) - 1 {
		p.task.part(thread, int(i))
	}
}

func (p *pool) help(thread int, start <-chan struct{}) {
	for range start {
		p.work(thread)
		p.done.Done()
	}
}

func (p *pool) close() {
	for _, c := range p.start {
		close(c)
	}
	p.start = nil
}
