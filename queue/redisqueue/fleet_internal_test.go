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
	a := newAnswers()
	require.True(t, a.any.Load().IsZero())
	command := a.ProcessHook(func(context.Context, redis.Cmder) error { return nil })
	require.NoError(t, command(t.Context(), nil))
	require.Contains(t, a.any.Load().String(), " m=", "the time has no reading of the monotonic clock")
	require.WithinDuration(t, time.Now(), *a.any.Load(), time.Minute)
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

// A queue is inspected once in three quarters of the time between two heartbeats, whichever worker
// does it, but at once after a worker was declared lost.
func TestOneReaperInspectsAQueue(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	ctx, rdb := t.Context(), f.queue.rdb
	f.queue.Leases = Leases{Beat: time.Hour, Silence: 3 * time.Hour}
	reaper := func(id string) *reaper {
		return newReaper(f.queue, f.member(id), "m", slog.New(slog.DiscardHandler))
	}
	first, second := reaper("v"), reaper("w")
	require.NoError(t, f.member("w").join(ctx))
	require.NoError(t, first.look(ctx))
	inspected := "ingot:{m:default}:reaper"
	require.InDelta(t, 45*time.Minute, rdb.PTTL(ctx, inspected).Val(), float64(time.Minute))
	d := f.take(1, 0, "dead")
	require.NoError(t, rdb.HSet(ctx, taskKey(d.queue, d.id), "owner", "dead").Err())
	require.NoError(t, second.look(ctx))
	require.Equal(t, "active", rdb.HGet(ctx, taskKey(d.queue, d.id), "state").Val(), "another worker has just inspected the queue")
	now := time.Now()
	silent := map[string]string{"gone": "1"}
	require.NoError(t, rdb.HSet(ctx, fleetKey("beats"), "gone", "1").Err())
	second.watch.look(now.Add(-4*time.Hour), silent)
	for hours := range 3 {
		second.watch.look(now.Add(time.Duration(hours-3)*time.Hour), silent)
	}
	require.NoError(t, second.look(ctx))
	require.Equal(t, "pending", rdb.HGet(ctx, taskKey(d.queue, d.id), "state").Val(), "a worker was declared lost")
	require.NotContains(t, rdb.HGetAll(ctx, fleetKey("beats")).Val(), "gone")

	// A worker does not declare itself lost.
	own := reaper("gone")
	require.NoError(t, rdb.HSet(ctx, fleetKey("beats"), "gone", "1").Err())
	own.watch.look(now.Add(-4*time.Hour), silent)
	for hours := range 3 {
		own.watch.look(now.Add(time.Duration(hours-3)*time.Hour), silent)
	}
	require.NoError(t, own.look(ctx))
	require.Contains(t, rdb.HGetAll(ctx, fleetKey("beats")).Val(), "gone")
}

// Servers and workers of different versions agree on the names of channels.
func TestNamesOfChannels(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"ingot:events:c", "ingot:events:queue:m", "asynq:cancel"}, []string{eventChannel("c"), arrivalChannel("m"), cancelChannel})
	require.Equal(t, []string{"ingot:{b}:meta", "ingot:{:fleet}:beats", "ingot:{m:default}:longer", "ingot:{m:default}:waiting:b", "asynq:{m:default}:t:b:1"}, []string{
		key("b", "meta"), fleetKey("beats"), longerKey("m:default"), waitingKey("m:default", "b"), taskKey("m:default", "b:1"),
	})
}
