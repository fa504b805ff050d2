package worker

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-run/ingot/queue"
)

const (
	// maxAdmitted is the maximum total size, in bytes, of the bodies of the running rows. A row with a larger body runs alone.
	maxAdmitted = 32 << 20
	// A row runs alone after suspectDeaths workers died while they ran it.
	suspectDeaths = 2
	// A row fails after maxDeaths workers died while they ran it.
	maxDeaths = suspectDeaths + 3
)

// errDraining means that a row was not admitted because the worker stops.
var errDraining = errors.New("worker is stopping")

// admission decides when a row that the worker has taken may begin. It limits the total size of the running rows. A row runs alone once
// suspectDeaths workers have died while they ran it: if this worker dies too, no other row can be the cause. Rows are admitted in order: a
// row that must run alone waits for the running rows, and later rows wait for it.
type admission struct {
	bytes   *semaphore.Weighted
	closed  chan struct{}
	closing sync.Once
}

func newAdmission() *admission {
	return &admission{bytes: semaphore.NewWeighted(maxAdmitted), closed: make(chan struct{})}
}

// enter waits until a row may begin. The caller must call leave when the row ends. The error is errDraining if close was called, or
// ctx's error.
func (a *admission) enter(ctx context.Context, j *queue.Job) (leave func(), err error) {
	select {
	case <-a.closed:
		return nil, errDraining
	default:
	}
	if leave, ok := a.tryEnter(j); ok {
		return leave, nil
	}
	n := room(j)
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-a.closed:
			stop()
		case <-waiting.Done():
		}
	}()
	if err := a.bytes.Acquire(waiting, n); err != nil {
		if ctx.Err() == nil {
			return nil, errDraining
		}
		return nil, err
	}
	return func() { a.bytes.Release(n) }, nil
}

// tryEnter admits a row that can begin without a wait. ok is false if the row would have to wait, or after close.
func (a *admission) tryEnter(j *queue.Job) (leave func(), ok bool) {
	select {
	case <-a.closed:
		return nil, false
	default:
	}
	n := room(j)
	return func() { a.bytes.Release(n) }, a.bytes.TryAcquire(n)
}

// room returns the part of maxAdmitted that a row takes.
func room(j *queue.Job) int64 {
	if j.Deaths >= suspectDeaths {
		return maxAdmitted
	}
	return min(max(int64(len(j.Body)), 1), maxAdmitted)
}

// close makes enter return errDraining for waiting rows and all later ones.
func (a *admission) close() { a.closing.Do(func() { close(a.closed) }) }
