package cpu

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// task is an operation cut into parts that may run on any thread in any order.
type task interface {
	part(thread, i int)
}

// pool runs tasks on a fixed number of threads, including the caller's. Each thread has the same
// share of a task's parts in every step, so that the weights that it reads stay in its caches. A
// thread that has done its share takes parts of other shares. After a task, helpers poll for the
// next one for a while before they sleep, because the tasks of a step follow one another closely.
type pool struct {
	shares  []share // [threads]
	helpers []helper
	task    task

	// run is the current task: its number in the upper bits, and its number of parts in the lower
	// bits.
	run  atomic.Uint64
	_    [56]byte // keeps run, which threads poll, and done, which threads write, on separate cache lines
	done atomic.Int64
	_    [56]byte

	panicked atomic.Pointer[partPanic] // first panic of the current task

	closed atomic.Bool
	ended  sync.WaitGroup // waits for the helpers to end
}

// share records which parts of a thread's share of a task are claimed. The upper bits of claimed
// are the task's number, and the lower bits the next part to claim. If the number is that of an
// earlier task, no part of the current task is claimed yet.
type share struct {
	claimed atomic.Uint64
	_       [56]byte // keeps the shares on separate cache lines
}

type helper struct {
	asleep atomic.Bool
	wake   chan struct{}
	_      [48]byte
}

const (
	partBits = 20
	maxParts = 1<<partBits - 1

	// helperWait is how long a helper without work stays awake. It is longer than most gaps between
	// the tasks of a step. It must be short, because a waiting helper keeps a processor from other
	// goroutines.
	helperWait = 50 * time.Microsecond
	// helperLooks is the number of times that a helper polls for work before it reads the clock. A
	// pause between two polls takes from 1 to about 50 ns, depending on the processor.
	helperLooks = 256
	// callerSpins is the number of polls after which the caller lets other goroutines run.
	callerSpins = 20_000
)

func newPool(threads int) *pool {
	p := &pool{shares: make([]share, threads), helpers: make([]helper, threads-1)}
	for i := range p.helpers {
		p.helpers[i].wake = make(chan struct{}, 1)
		p.ended.Go(func() { p.help(i + 1) })
	}
	return p
}

// partPanic is a panic that occurred in a part of a task. pool.do panics with it after the other
// parts are done.
type partPanic struct {
	value any
	stack []byte
}

func (p *partPanic) String() string { return fmt.Sprint(p.value) }

func (p *partPanic) Stack() []byte { return p.stack }

// do runs all parts of t on the threads. If a part panics, do panics after the other parts are
// done.
func (p *pool) do(t task, parts int) {
	if parts <= 1 || len(p.helpers) == 0 {
		for i := range parts {
			t.part(0, i)
		}
		return
	}
	if parts > maxParts {
		panic(fmt.Sprintf("cpu: a task has %d parts; the maximum is %d", parts, maxParts))
	}
	p.task = t
	p.done.Store(0)
	run := (p.run.Load()>>partBits+1)<<partBits | uint64(parts)
	p.run.Store(run)
	for i := range p.sharers(run) - 1 {
		p.helpers[i].rouse()
	}
	p.work(0, run)
	for spins := 0; p.done.Load() < int64(parts); spins++ {
		pause()
		if spins >= callerSpins {
			runtime.Gosched()
		}
	}
	if failed := p.panicked.Swap(nil); failed != nil {
		panic(failed)
	}
}

// part does a part of the current task. It recovers a panic and stores it for do. Otherwise, a
// panic on a helper would end the process, and a panic on the caller's thread would end the call
// while helpers still work on its task.
func (p *pool) part(thread, i int) {
	defer func() {
		if value := recover(); value != nil {
			p.panicked.CompareAndSwap(nil, &partPanic{value, debug.Stack()})
		}
	}()
	p.task.part(thread, i)
}

func (h *helper) rouse() {
	if h.asleep.Load() && h.asleep.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}

// sharers returns the number of threads that have a share of a task. With fewer parts than threads,
// each share is one part.
func (p *pool) sharers(run uint64) int { return min(len(p.shares), int(run&maxParts)) }

// work does the parts of a thread's share of a task, then the remaining parts of the other shares.
// run is the task's run value.
func (p *pool) work(thread int, run uint64) {
	sharers := p.sharers(run)
	if thread >= sharers {
		return
	}
	for k := range sharers {
		of, did := (thread+k)%sharers, int64(0)
		for {
			i, ok := p.claim(of, run)
			if !ok {
				break
			}
			p.part(thread, i)
			did++
		}
		if did > 0 {
			p.done.Add(did)
		}
	}
}

// claim takes the next part of a thread's share. ok is false if no part is left. A late
// thread may call claim for a task that has already ended: no part is left then.
func (p *pool) claim(thread int, run uint64) (part int, ok bool) {
	parts, sharers := int(run&maxParts), p.sharers(run)
	first, end := parts*thread/sharers, parts*(thread+1)/sharers
	number := run &^ maxParts
	for {
		claimed := p.shares[thread].claimed.Load()
		part = int(claimed & maxParts)
		switch before := claimed &^ maxParts; {
		case before > number:
			return 0, false // the share belongs to a later task
		case before < number:
			part = first
		}
		if part >= end {
			return 0, false
		}
		if p.shares[thread].claimed.CompareAndSwap(claimed, number|uint64(part+1)) {
			return part, true
		}
	}
}

func (p *pool) help(thread int) {
	h := &p.helpers[thread-1]
	last := uint64(0)
	for !p.closed.Load() {
		if run, ok := p.watch(last); ok {
			p.work(thread, run)
			last = run
			continue
		}
		h.asleep.Store(true)
		if (p.run.Load() != last || p.closed.Load()) && h.asleep.CompareAndSwap(true, false) {
			continue
		}
		<-h.wake
	}
}

// watch polls until the run value is not last, for at most helperWait. ok reports whether it has
// changed.
func (p *pool) watch(last uint64) (run uint64, ok bool) {
	var start time.Time
	for {
		for range helperLooks {
			if run = p.run.Load(); run != last {
				return run, true
			}
			pause()
		}
		switch now := time.Now(); {
		case start.IsZero():
			start = now
		case now.Sub(start) > helperWait:
			return 0, false
		}
	}
}

// close ends the helpers and waits for them. The pool must be idle.
func (p *pool) close() {
	p.closed.Store(true)
	for i := range p.helpers {
		p.helpers[i].rouse()
	}
	p.ended.Wait()
}
