package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDueSlots: which of the slots since the last look wait to be run.
func TestDueSlots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		missed    MissedPolicy
		last, now time.Duration // since noon
		slots     int
		first     time.Duration
		waiting   int // the newest ones
	}{
		{RunAll, 0, 59 * time.Second, 0, 0, 0},
		{RunAll, 0, time.Minute, 1, time.Minute, 1},
		{RunAll, time.Minute, 2 * time.Minute, 1, 2 * time.Minute, 1},
		{RunAll, 0, 3 * time.Minute, 3, time.Minute, 3},
		{RunLatest, 0, 3 * time.Minute, 3, time.Minute, 1},
		{RunLatest, 0, time.Hour, 60, time.Minute, 1},
		{Skip, 0, 7 * time.Minute, 7, time.Minute, 6}, // up to exactly 5 minutes late
		{Skip, 0, 7*time.Minute + time.Second, 7, time.Minute, 5},
		{RunAll, 0, maxDue * time.Minute, maxDue, time.Minute, maxDue},
		{RunAll, 0, (maxDue + 1) * time.Minute, maxDue, 2 * time.Minute, maxDue},
		{RunLatest, 0, (2*maxDue + 7) * time.Minute, maxDue, (maxDue + 8) * time.Minute, 1},
	} {
		e := Entry{Missed: c.missed}
		var err error
		e.times, err = parse("* * * * *", "UTC")
		require.NoError(t, err)
		list := e.due(noon.Add(c.last), noon.Add(c.now))
		require.Len(t, list, c.slots, "%+v", c)
		for i, s := range list {
			require.Equal(t, noon.Add(c.first+time.Duration(i)*time.Minute), s.at, "%+v", c)
			require.Equal(t, i >= len(list)-c.waiting, s.state == Waiting, "%+v: slot %d", c, i)
			require.Contains(t, []State{Waiting, Missed}, s.state)
		}
	}
}
