package redisqueue

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// outage logs two lines for each time in which Redis cannot be used: one when the outage begins and one when it ends. All other errors of
// the outage are logged at debug level.
type outage struct {
	log *slog.Logger

	mu     sync.Mutex
	since  time.Time // zero while Redis can be used
	errors int
}

// failed logs a failed operation. The parameter what describes the failure, such as "could not take rows".
func (o *outage) failed(what string, err error) {
	if !errors.Is(err, queue.ErrUnavailable) {
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

// asynqLog forwards asynq's log. Warnings are logged at debug level, since the worker itself logs retries and returned jobs. Errors are
// failures of Redis, or panics.
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
