package fleet

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

// stallInterval is the time between two looks for a reason why a batch does not advance.
const stallInterval = 5 * time.Second

// stalls prints why a batch that somebody watches does not advance, whenever the reason changes.
type stalls struct {
	queue *redisqueue.Queue
	out   io.Writer

	next   time.Time
	reason string // the last one; empty while workers can answer the batch
}

// look looks for a reason, if the last look was some seconds ago.
func (s *stalls) look(ctx context.Context, status queue.Status) {
	if time.Now().Before(s.next) || status.Ended() {
		return
	}
	s.next = time.Now().Add(stallInterval)
	reason, err := stalled(ctx, s.queue, status.Aliases())
	if err != nil || reason == s.reason {
		return // reading the batch reports that Redis cannot be used
	}
	text := reason
	if reason == "" {
		text = "workers take the rows now"
	}
	s.reason = reason
	fmt.Fprintln(s.out, text) //nolint:errcheck // a note is best effort
}

// stalled says why no worker takes rows of some aliases. It is empty if a worker can take rows of
// each.
func stalled(ctx context.Context, q *redisqueue.Queue, aliases []string) (string, error) {
	s, err := readServing(ctx, q)
	if err != nil {
		return "", err
	}
	var reasons []string
	for _, alias := range aliases {
		if text := s.reason(alias, "the rows"); text != "" {
			reasons = append(reasons, text)
		}
	}
	return strings.Join(reasons, "\n"), nil
}
