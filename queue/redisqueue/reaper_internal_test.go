package redisqueue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A worker is silent if its last heartbeat has not changed for 12 s. Time in which the watching
// process was asleep does not count.
func TestWatch(t *testing.T) {
	t.Parallel()
	const s = time.Second
	type look struct {
		at     time.Duration
		beats  map[string]string
		silent []string
	}
	a, b := map[string]string{"x": "1"}, map[string]string{"x": "2"}
	for name, looks := range map[string][]look{
		"a worker that beats":     {{0, a, nil}, {2 * s, b, nil}, {4 * s, a, nil}, {6 * s, b, nil}, {8 * s, a, nil}, {10 * s, b, nil}, {12 * s, a, nil}},
		"a silent worker":         {{0, a, nil}, {4 * s, a, nil}, {8 * s, a, nil}, {11 * s, a, nil}, {12 * s, a, []string{"x"}}, {14 * s, a, []string{"x"}}},
		"counted from its change": {{0, a, nil}, {4 * s, b, nil}, {8 * s, b, nil}, {12 * s, b, nil}, {15 * s, b, nil}, {16 * s, b, []string{"x"}}},
		"the watch slept":         {{0, a, nil}, {4 * s, a, nil}, {40 * s, a, nil}, {44 * s, a, nil}, {48 * s, a, nil}, {52 * s, a, []string{"x"}}},
		"a worker that left":      {{0, a, nil}, {6 * s, nil, nil}, {11 * s, a, nil}, {16 * s, a, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch{Leases: Leases{Beat: 2 * s, Silence: 12 * s}}
			start := time.Now()
			for _, l := range looks {
				require.Equal(t, l.silent, w.look(start.Add(l.at), l.beats), "after %v", l.at)
			}
		})
	}
}
