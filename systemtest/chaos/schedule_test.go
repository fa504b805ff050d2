package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScheduleIsDrawnFromItsSeed(t *testing.T) {
	const storm, stop = 3 * time.Minute, 40 * time.Second
	events := schedule(1, storm, stop)
	require.Equal(t, events, schedule(1, storm, stop))
	require.NotEqual(t, events, schedule(2, storm, stop))
}

// The first disturbances contain each kind as often as it has cards, and all disturbances are
// within the storm.
func TestScheduleHasEveryKind(t *testing.T) {
	for _, stop := range []time.Duration{4 * time.Second, 40 * time.Second} {
		storm := 5 * stop
		for seed := range uint64(100) {
			events := schedule(seed, storm, stop)
			left := map[kind]int{}
			size := 0
			for _, d := range deck {
				left[d.kind] = d.cards
				size += d.cards
			}
			require.GreaterOrEqual(t, len(events), size)
			last := time.Duration(0)
			for i, e := range events {
				if i < size {
					left[e.kind]--
				}
				require.Greater(t, e.at, last)
				require.Less(t, e.at, storm)
				last = e.at
				if e.kind == stopWorker {
					require.Equal(t, stop, e.lasts)
				}
				require.LessOrEqual(t, e.lasts, stop)
			}
			for k, n := range left {
				require.Zero(t, n, k)
			}
		}
	}
}
