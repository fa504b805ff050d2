package cpu

import (
	"runtime"
	"sync/atomic"
)

// task is an operation cut into parts that may run on any thread in any order.
type task interface {
	// part does part i on the given thread.
	part(thread, i int)
}

// pool runs tasks on a fixed number of threads, the caller's among them. Its helpers look out for work for a while after
// a task, since the next one of a step is near, and only then sleep.
type pool struct {
	helpers []helper
	task    task

	// state is the claim on the task's parts: a count of tasks in the upper bits, then the number of parts, then the index of
	// the next one. A thread claims a part by adding one. What it gets tells by itself whether there was a part left.
	state atomic.Uint64
	_     [56]byte // a cache line between what claims write and what the end of parts does
	done  atomic.Int64
	_     [56]byte

	closed atomic.Bool
}

// helper is a thread of the pool other than the caller's.
type helper struct {
	asleep atomic.Bool
	wake   chan struct{}
	_      [48]byte
}

const (
	partBits = 20
	maxParts = 1<<partBits - 1
	partMask = 1<<partBits - 1

	// helperSpins is for how many looks at state a helper stays awake, some 50 µs; callerSpins is after how many the caller
	// lets other goroutines run.
	helperSpins = 40_000
	callerSpins = 20_000
)

func newPool(threads int) *pool {
	p := &pool{helpers: make([]helper, threads-1)}
	for i := range p.helpers {
		p.helpers[i].wake = make(chan struct{}, 1)
		go p.help(i + 1)
	}
	return p
}

// run does all parts of t and returns when they are done.
func (p *pool) run(t task, parts int) {
	if parts <= 1 || len(p.helpers) == 0 {
		for i := range parts {
			t.part(0, i)
		}
		return
	}
	if parts > maxParts {
		panic("cpu: a task has too many parts")
	}
	p.task = t
	p.done.Store(0)
	count := p.state.Load()>>(2*partBits) + 1
	p.state.Store(count<<(2*partBits) | uint64(parts)<<partBits)
	for i := range p.helpers {
		p.helpers[i].rouse()
	}
	p.work(0)
	for spins := 0; p.done.Load() < int64(parts); spins++ {
		if spins >= callerSpins {
			runtime.Gosched()
		}
	}
}

// rouse wakes the helper if it sleeps.
func (h *helper) rouse() {
	if h.asleep.Load() && h.asleep.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}

// open tells whether a state has parts left.
func open(state uint64) bool { return state&partMask < state>>partBits&partMask }

// work does parts until none is left to claim.
func (p *pool) work(thread int) {
	for open(p.state.Load()) {
		claim := p.state.Add(1) - 1
		if !open(claim) {
			return
		}
		p.task.part(thread, int(claim&partMask))
		p.done.Add(1)
	}
}

func (p *pool) help(thread int) {
	h := &p.helpers[thread-1]
	for !p.closed.Load() {
		if p.watch() {
			p.work(thread)
			continue
		}
		h.asleep.Store(true)
		if (open(p.state.Load()) || p.closed.Load()) && h.asleep.CompareAndSwap(true, false) {
			continue
		}
		<-h.wake
	}
}

// watch waits for work for a while and tells whether there is some.
func (p *pool) watch() bool {
	for range helperSpins {
		if open(p.state.Load()) {
			return true
		}
	}
	return false
}

// close ends the helpers. The pool must be idle.
func (p *pool) close() {
	p.closed.Store(true)
	for i := range p.helpers {
		p.helpers[i].rouse()
	}
}
