package redisqueue

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// shifted changes the replies of TIME, as if the clock of the server had been set.
type shifted struct{ by time.Duration }

func (*shifted) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (*shifted) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *shifted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if t, ok := cmd.(*redis.TimeCmd); ok && t.Err() == nil {
				t.SetVal(t.Val().Add(s.by))
			}
		}
		return err
	}
}

// A worker that sends heartbeats is not silent, wherever the clocks of the server and of this
// machine stand. After the server's clock was set back, its last heartbeat may lie in the future.
func TestAWorkerThatBeatsIsNotSilent(t *testing.T) {
	t.Parallel()
	const s, day = time.Second, 24 * time.Hour
	for name, c := range map[string]struct {
		clock  time.Duration // by which the server's clock differs from that of this machine
		beat   time.Duration // time of the heartbeat, by the server's clock, from now
		silent bool
	}{
		"equal clocks":                   {0, -2 * s, false},
		"the server was set back":        {-day, -day - 2*s, false},
		"it was set back after the beat": {-day, 0, false},
		"the server is ahead":            {day, day - 2*s, false},
		"no beats":                       {0, -24 * s, true},
		"no beats, and set back":         {-day, -day - 24*s, true},
		"no beats, and ahead":            {day, day - 24*s, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 0)
			require.NoError(t, f.member("w").join(t.Context()))
			beat := time.Now().Add(c.beat).UnixMilli()
			require.NoError(t, f.redis.Client.HSet(t.Context(), fleetKey("beats"), "w", strconv.FormatInt(beat, 10)).Err())
			f.queue.rdb.AddHook(&shifted{c.clock})
			fleet, err := f.queue.Fleet(t.Context())
			require.NoError(t, err)
			require.Len(t, fleet, 1)
			require.Equal(t, c.silent, f.queue.Silent(fleet[0]))
			n, err := f.queue.Workers(t.Context(), "m")
			require.NoError(t, err)
			require.Equal(t, c.silent, n == 0)
		})
	}
}

// A watch whose clock is set back does not take a worker that beats for silent, and still finds one
// that does not.
func TestAWatchWhoseClockIsSetBack(t *testing.T) {
	t.Parallel()
	const s = time.Second
	w := watch{Leases: Leases{Beat: 2 * s, Silence: 12 * s}}
	start := time.Now()
	at := func(after time.Duration, beat string) []string {
		return w.look(start.Add(after), map[string]string{"alive": beat, "dead": "1"})
	}
	require.Empty(t, at(0, "1"))
	require.Empty(t, at(2*s, "2"))
	require.Empty(t, at(-time.Hour, "3"))
	for n := range 6 {
		require.Empty(t, at(-time.Hour+time.Duration(n)*2*s, "4"+strconv.Itoa(n)))
	}
	require.Equal(t, []string{"dead"}, at(-time.Hour+12*s, "5"))
}

// The queue still notices that Redis does not answer after the clock of this machine was set back.
func TestMomentsAreMonotonic(t *testing.T) {
	t.Parallel()
	var m moment
	require.True(t, m.time().IsZero())
	m.now()
	require.Contains(t, m.time().String(), " m=", "the time has no reading of the monotonic clock")
	require.WithinDuration(t, time.Now(), m.time(), time.Minute)
}

// Redis keeps times of its clock. After that clock was set back, queues are inspected soon, and
// rows without an owner return.
func TestRowsReturnAfterTheServersClockWasSetBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	row := f.take(1, 0, "w")
	later := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	require.NoError(t, f.redis.Client.HSet(t.Context(), taskKey("m:default", row.id), "orphan", later).Err())
	require.NoError(t, f.redis.Client.Set(t.Context(), key("m:default", "reaper"), 1, time.Hour).Err())
	r := newReaper(f.queue, f.member(""), "m", slog.New(slog.DiscardHandler))
	r.watch.Silence = time.Millisecond
	f.eventually("the row is in the queue again", func() bool {
		require.NoError(t, r.handOver(t.Context(), time.Millisecond))
		return f.redis.Client.HGet(t.Context(), taskKey("m:default", row.id), "state").Val() == "pending"
	})
}
