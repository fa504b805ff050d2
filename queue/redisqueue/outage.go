package redisqueue

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// outage logs two lines for each time in which Redis cannot be used: one when the outage begins and
// one when it ends. All other errors of the outage are logged at debug level.
type outage struct {
	log *slog.Logger

	mu     sync.Mutex
	since  time.Time // zero while Redis can be used
	errors int
}

// failed logs a failed operation. failure describes it, such as "could not take rows".
func (o *outage) failed(failure string, err error) {
	if !errors.Is(err, queue.ErrUnavailable) {
		o.log.Warn(failure, "error", err)
		return
	}
	o.begin(fmt.Sprintf("%s: %v", failure, err))
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
