package apple

import "runtime"

// thread is a goroutine locked to its OS thread. It runs one function at a time, each in a separate
// autorelease pool. A pool belongs to an OS thread, and a goroutine that is not locked can move to
// another OS thread between push and pop.
type thread struct {
	calls chan func()
	done  chan struct{}
}

func startThread(o *objc) *thread {
	t := &thread{calls: make(chan func()), done: make(chan struct{})}
	go t.run(o)
	return t
}

func (t *thread) run(o *objc) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for f := range t.calls {
		pool := o.call(o.poolPush)
		f()
		o.call(o.poolPop, pool)
		t.done <- struct{}{}
	}
	close(t.done)
}

// do runs f on the thread and waits until f returns. On hot paths, callers should reuse f, since
// making a closure allocates memory.
func (t *thread) do(f func()) {
	t.calls <- f
	<-t.done
}

func (t *thread) stop() {
	close(t.calls)
	<-t.done
}
