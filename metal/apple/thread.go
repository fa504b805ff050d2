package apple

import "runtime"

// thread is a goroutine locked to its OS thread. What runs on it runs one at a time, in an autorelease pool of its own:
// pools belong to a thread, and a goroutine that is not locked may leave its thread between push and pop.
type thread struct {
	calls chan func()
	done  chan struct{}
}

func startThread() *thread {
	t := &thread{calls: make(chan func()), done: make(chan struct{})}
	go t.run()
	return t
}

func (t *thread) run() {
	runtime.LockOSThread() // and never unlocked: the OS thread ends with the goroutine
	for f := range t.calls {
		f()
		t.done <- struct{}{}
	}
	close(t.done)
}

// do runs f on the thread and waits for it. Functions that are called often are made once, since a closure is allocated.
func (t *thread) do(f func()) {
	t.calls <- f
	<-t.done
}

// stop ends the thread.
func (t *thread) stop() {
	close(t.calls)
	<-t.done
}
