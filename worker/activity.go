package worker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// every calls do at intervals until ctx is done.
func every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do(ctx)
		}
	}
}

// drain ends Run when its context is done or the engine has failed: Serve takes no more rows, and
// rows that wait for admission return to the queue.
type drain struct {
	timeout   time.Duration
	admission *admission
	log       *slog.Logger

	once     sync.Once // for begin
	stopping atomic.Bool
	failure  error // the error with which the engine stopped
	cancel   context.CancelFunc
	detach   func() bool

	recording context.Context // ends when the timeout is over: recording a result is then not retried
	giveUp    context.CancelFunc
}

func newDrain(timeout time.Duration, rows *admission, log *slog.Logger) *drain {
	d := &drain{timeout: timeout, admission: rows, log: log}
	d.recording, d.giveUp = context.WithCancel(context.Background())
	return d
}

func (d *drain) start(ctx context.Context) context.Context {
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d.cancel = cancel
	d.detach = context.AfterFunc(ctx, func() { d.begin(nil) })
	return serving
}

// begin starts to end Run. failure is the error with which the engine stopped, or nil.
func (d *drain) begin(failure error) {
	d.once.Do(func() {
		if d.failure = failure; failure != nil {
			d.log.Error("the engine has failed and stopped", "error", failure)
		}
		d.log.Info("stopping: no more jobs are taken", "timeout", d.timeout)
		d.stopping.Store(true)
		d.admission.close()
		d.cancel()
		time.AfterFunc(d.timeout, d.giveUp)
	})
}

// shutdown must be called when Serve has returned. It returns the error with which the engine
// stopped.
func (d *drain) shutdown() error {
	d.detach()
	d.once.Do(func() {}) // Serve could not start, or begin may still run
	d.cancel()
	d.giveUp()
	return d.failure
}
