package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// outage logs two lines for each time in which Redis cannot be used: one when the outage begins and
// one when it ends. All other errors of the outage are logged at debug level. An outage ends when
// all operations that failed have succeeded: Redis may answer some and refuse others, for example
// if it has no memory left, or after a change of the user's rights.
//
// An error that is no outage, such as that of a key which another program has overwritten, is
// logged once until the operation succeeds or fails in another way: it is tried again and again.
type outage struct {
	log *slog.Logger

	mu      sync.Mutex
	since   time.Time       // zero while Redis can be used
	failing map[string]bool // failures of operations that have not succeeded since
	errors  int
	logged  map[string]string // last error that is no outage of each failure that has not succeeded since
}

// failed logs a failed operation. failure describes it, such as "could not take rows". worked must
// be called with the same text when the operation succeeds or is given up.
func (o *outage) failed(failure string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !errors.Is(err, queue.ErrUnavailable) {
		o.warn(failure, err)
		return
	}
	reason := fmt.Sprintf("%s: %v", failure, err)
	o.errors++
	if !o.since.IsZero() {
		o.failing[failure] = true
		o.log.Debug("redis cannot be used", "error", reason)
		return
	}
	o.since, o.failing = time.Now(), map[string]bool{failure: true}
	o.log.Warn("redis cannot be used: trying again", "error", reason)
}

// warn logs an error that is no outage, unless it was the last one of the failure. The caller holds
// the mutex.
func (o *outage) warn(failure string, err error) {
	level := slog.LevelWarn
	if o.logged[failure] == err.Error() {
		level = slog.LevelDebug
	}
	if o.logged == nil {
		o.logged = map[string]string{}
	}
	o.logged[failure] = err.Error()
	o.log.Log(context.Background(), level, failure, "error", err)
}

// worked ends the outage, if there is one, unless another operation still fails.
func (o *outage) worked(failure string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.failing, failure)
	delete(o.logged, failure)
	if o.since.IsZero() || len(o.failing) > 0 {
		return
	}
	o.log.Info("redis can be used again", "after", time.Since(o.since).Round(time.Second), "errors", o.errors)
	o.since, o.failing, o.errors = time.Time{}, nil, 0
}

// search returns a loop of searches at intervals. failure is logged if a search fails. A search
// that fails because Redis cannot be used is repeated after a heartbeat's interval, so that the end
// of the outage is noticed.
func (o *outage) search(interval, beat time.Duration, failure string, do func(ctx context.Context) error) *loop {
	return &loop{interval: interval, do: func(ctx context.Context) {
		for {
			err := do(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				o.worked(failure)
				return
			}
			o.failed(failure, err)
			if !errors.Is(err, queue.ErrUnavailable) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(beat):
			}
		}
	}}
}
