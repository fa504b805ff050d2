package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// task is an operation cut into parts that may run on any thread in any order.
type task interface {
	// part does part i on the given thread.
	part(thread, i int)
}

// pool runs tasks on a fixed number of threads, the caller's among them. Each thread has a share of a task's parts, the same
// one in every step, so that the weights it reads stay in its own caches; a thread that has done its share takes from the
// others'. Helpers look out for work for a while after a task, since the next one of a step is near, and only then sleep.
type pool struct {
	shares  []share // [threads]
	helpers []helper
	task    task

	// run is the task at hand: its number in the upper bits, and how many parts it has.
	run  atomic.Uint64
	_    [56]byte // a cache line between what is read all the time and what the end of parts writes
	done atomic.Int64
	_    [56]byte

	closed atomic.Bool
	ended  sync.WaitGroup // the helpers
}

// share is what has been claimed of a thread's share: in the upper bits the number of the task it belongs to, below them the
// next part. Where the number is that of a task before, nothing has been claimed yet.
type share struct {
	claimed atomic.Uint64
	_       [56]byte // claims of one's own share write to a cache line of one's own
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

	// helperWait is for how long a helper without work stays awake: longer than most gaps within a step, and short, since it
	// keeps a processor from goroutines that have something to do, such as those of the next requests.
	helperWait = 50 * time.Microsecond
	// helperLooks is how often a helper looks out for work before it looks at the clock. The pauses in between take from one to
	// some fifty nanoseconds each, as the processor is.
	helperLooks = 256
	// callerSpins is after how many looks the caller lets other goroutines run.
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

// do does all parts of t and returns when they are done.
func (p *pool) do(t task, parts int) {
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
}

// rouse wakes the helper if it sleeps.
func (h *helper) rouse() {
	if h.asleep.Load() && h.asleep.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}

// sharers is how many threads have a share of a run: the first ones.
func (p *pool) sharers(run uint64) int { return min(len(p.shares), int(run&maxParts)) }

// work does the parts of a thread's share of a run, and then what is left of the others'.
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
			p.task.part(thread, i)
			did++
		}
		if did > 0 {
			p.done.Add(did)
		}
	}
}

// claim takes the next part of a share. Once it has one, the run cannot end before that part is done; a run that is over has
// no part left to take.
func (p *pool) claim(of int, run uint64) (part int, ok bool) {
	parts, sharers := int(run&maxParts), p.sharers(run)
	first, end := parts*of/sharers, parts*(of+1)/sharers
	number := run &^ maxParts
	for {
		claimed := p.shares[of].claimed.Load()
		part = int(claimed & maxParts)
		switch before := claimed &^ maxParts; {
		case before > number:
			return 0, false // of a later run
		case before < number:
			part = first
		}
		if part >= end {
			return 0, false
		}
		if p.shares[of].claimed.CompareAndSwap(claimed, number|uint64(part+1)) {
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

// watch waits for a run after the last one for a while, and tells whether there is one.
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

// close ends the helpers and returns when they are gone. The pool must be idle.
func (p *pool) close() {
	p.closed.Store(true)
	for i := range p.helpers {
		p.helpers[i].rouse()
	}
	p.ended.Wait()
}
