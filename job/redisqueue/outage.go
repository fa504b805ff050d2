package redisqueue

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ingot-run/ingot/job"
)

// outage merges what the parts of a worker log while Redis cannot be used: one line when that begins, and one when it ends. The other lines
// are logged at debug level.
type outage struct {
	log *slog.Logger

	mu     sync.Mutex
	since  time.Time // zero while Redis can be used
	errors int
}

// failed logs that something could not be done.
func (o *outage) failed(what string, err error) {
	if !errors.Is(err, job.ErrUnavailable) {
		o.log.Warn(what, "error", err)
		return
	}
	o.begin(fmt.Sprintf("%s: %v", what, err))
}

func (o *outage) begin(reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errors++
	if !o.since.IsZero() {
		o.log.Debug("redis cannot be used", "error", reason)
		return
	}
	o.since = time.Now()
	o.log.Warn("redis cannot be used: trying again", "error", reason)
}

// over ends an outage, if there is one.
func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return
	}
	o.log.Info("redis can be used again", "after", time.Since(o.since).Round(time.Second), "errors", o.errors)
	o.since, o.errors = time.Time{}, 0
}

// asynqLog forwards asynq's log. Messages about asynq's state are interesting only for debugging. Its warnings are routine: they are
// about retries and returned jobs, which the worker logs itself. Its errors are failures of Redis, or panics.
type asynqLog struct {
	log    *slog.Logger
	outage *outage
}

func (l asynqLog) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (l asynqLog) Info(args ...any)  { l.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (l asynqLog) Warn(args ...any)  { l.log.Debug(fmt.Sprint(args...), "from", "queue") }

func (l asynqLog) Error(args ...any) {
	text := fmt.Sprint(args...)
	if strings.Contains(text, "panic") || strings.Contains(text, "internal error") {
		l.log.Error(text, "from", "queue")
		return
	}
	l.outage.begin(text)
}

// Fatal is never called by asynq's server.
func (l asynqLog) Fatal(args ...any) { l.Error(args...) }
