package schedule

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestNewRefuses: a scheduler whose file is not valid does not begin.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := New(nil, Options{File: "/nonexistent"})
	require.ErrorContains(t, err, "read the schedule: open /nonexistent")
}

// TestLooks: a look adds the due slots, and queues the oldest one that is not finished, once.
func TestLooks(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	ctx := t.Context()
	look := func() error { return b.tick(ctx, "quick", 1) }
	require.NoError(t, b.tick(ctx, "other", 1), "another scheduler has the entry")
	require.NoError(t, look())
	require.Empty(t, b.queued(), "no slot is due")
	b.clock.now = noon.Add(2 * time.Minute)
	for range 2 {
		require.NoError(t, look())
		require.Equal(t, "1201, 1202", b.open())
		require.Equal(t, []string{"ingot-evaluations:run quick/20260102T120100Z: 5 retries, 8760h0m0s"}, b.queued())
	}
	require.Equal(t, 1, strings.Count(b.logged.String(), `msg="slot added" entry=quick slot=20260102T120100Z`))
	require.Equal(t, 2, strings.Count(b.logged.String(), "slot added"))
	b.faults.Each(t, func() func() error {
		b.begin()
		b.clock.now = noon.Add(2 * time.Minute)
		return look
	})
	b.faults.Each(t, func() func() error {
		b.begin()
		return func() error { // look logs its errors, and the next look repeats the work
			b.look(ctx)
			if text := b.logged.String(); text != "" {
				require.Equal(t, 1, strings.Count(text, "level="))
				require.Contains(t, text, `level=WARN msg="could not read or update the table of slots in Redis: trying again"`)
				return errors.New(text)
			}
			require.Len(t, b.queued(), 1)
			return nil
		}
	})
	b.logged.Reset()
	stopped, stop := context.WithCancel(ctx)
	stop()
	b.look(stopped)
	require.Empty(t, b.logged.String(), "the scheduler stops")
}

// TestRefresh: a refresh reads the file, looks at the table, and returns the ticks. It logs an
// error of the file once.
func TestRefresh(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	ctx := t.Context()
	write := func(text string) { require.NoError(t, os.WriteFile(b.options.File, []byte(text), 0o600)) }
	refresh := func() string {
		var list []string
		for _, p := range b.refresh(ctx) {
			require.Equal(t, tickOf(p.Task.Payload), p.Task)
			list = append(list, p.Cron+" "+p.Task.Payload)
		}
		return strings.Join(list, ", ")
	}
	errs := func() int {
		return strings.Count(b.logged.String(), `level=ERROR msg="could not read the schedule: the entries do not change"`)
	}
	for _, step := range []struct {
		text, ticks string
		errs        int
	}{
		{"entries: [{" + quick + "}]", "CRON_TZ=UTC * * * * * quick", 0},
		{"entries: [{" + quick + "}, {name: b, cron: '@daily', tasks: [a]}]", "CRON_TZ=UTC * * * * * quick, CRON_TZ=UTC @daily b", 0},
		{"entries: []", "CRON_TZ=UTC * * * * * quick, CRON_TZ=UTC @daily b", 1},
		{"entries: [{" + quick + "}]", "CRON_TZ=UTC * * * * * quick", 1},
		{"entries: []", "CRON_TZ=UTC * * * * * quick", 2},
		{"entries: 7", "CRON_TZ=UTC * * * * * quick", 3},
	} {
		write(step.text)
		for range 2 {
			require.Equal(t, step.ticks, refresh(), step.text)
			require.Equal(t, step.errs, errs(), step.text)
		}
	}
	for _, name := range []string{"quick", "b"} {
		served, err := b.table.served(ctx, name)
		require.NoError(t, err)
		require.True(t, served, name)
		require.EqualValues(t, 1, b.client.Exists(ctx, key("marks", name)).Val(), name)
	}
}

// TestOwned: a task goes back to the queue if only another live scheduler has its entry.
func TestOwned(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	ctx := t.Context()
	require.NoError(t, b.table.beat(ctx, "another", []Entry{{Name: "theirs"}, {Name: "old"}}))
	require.NoError(t, b.client.HSet(ctx, key("entries"), "old", "{}").Err())
	e, err := b.owned(ctx, "quick")
	require.NoError(t, err)
	require.Equal(t, "quick", e.Name)
	for name, says := range map[string]string{"theirs": "return to the queue for 10s", "old": "", "none": ""} {
		for _, do := range []func() error{
			func() error { e, err := b.owned(ctx, name); require.Nil(t, e); return err },
			func() error { return b.run(ctx, name+"/20260102T120100Z", 1) },
		} {
			if err := do(); says == "" {
				require.NoError(t, err, name)
			} else {
				require.ErrorContains(t, err, says, name)
			}
		}
	}
	require.Empty(t, b.runs)
	b.faults.Each(t, func() func() error {
		return func() error {
			_, err := b.owned(ctx, "none")
			if err != nil {
				require.ErrorContains(t, err, "return to the queue for 10s")
			}
			return err
		}
	})
}

// TestRunOfASlot: a slot that is waiting or running is run. After its end, its notice and the next
// slot are queued.
func TestRunOfASlot(t *testing.T) {
	t.Parallel()
	b := setup(t, quick+", notify: {on: [pass], command: [a]}")
	ctx := t.Context()
	for _, state := range []State{Waiting, Running, Done, Missed, Overlapped, Paused, ""} {
		b.runs = nil
		slot := b.begin()
		require.NoError(t, b.client.HSet(ctx, slotKey("quick", slot), "state", string(state), "started", "before", "verdict", "pass").Err())
		if state != Waiting && state != Running {
			require.NoError(t, b.client.ZRem(ctx, key("open", "quick"), slot).Err())
		}
		require.Equal(t, "1202 waiting", b.fire(noon.Add(2*time.Minute)))
		require.NoError(t, b.run(ctx, "quick/"+slot, 2))
		s, err := b.table.slot(ctx, "quick", slot)
		require.NoError(t, err)
		require.Equal(t, "before", s.Started)
		if state == Waiting || state == Running {
			require.Equal(t, []string{"quick-" + slot}, b.runs, state)
			require.Equal(t, []any{Done, b.id, 2, Pass, "good"}, []any{s.State, s.Owner, s.Attempt, s.Verdict, s.Message})
		} else {
			require.Empty(t, b.runs, state)
			require.Equal(t, state, s.State)
		}
		want := []string{"ingot-evaluations:run quick/20260102T120200Z: 5 retries, 8760h0m0s"}
		if s.State == Done {
			want = append([]string{"ingot-evaluations:notice quick/20260102T120100Z: 30 retries, 1m0s"}, want...)
		}
		require.Equal(t, want, b.queued(), state)
	}
}

// TestErrorsOfRedisDuringARun: whichever command fails, the task goes back to the queue, and
// another attempt completes the work.
func TestErrorsOfRedisDuringARun(t *testing.T) {
	t.Parallel()
	b := setup(t, quick+", notify: {on: [pass], command: [a]}")
	ctx := t.Context()
	b.faults.Each(t, func() func() error {
		slot := b.begin()
		b.runs = nil
		require.Equal(t, "1202 waiting", b.fire(noon.Add(2*time.Minute)))
		return func() error {
			err := b.run(ctx, "quick/"+slot, 1)
			if err != nil {
				require.ErrorContains(t, err, "return to the queue for 30s", "the attempt does not count")
				require.Contains(t, b.logged.String(), `msg="could not record a run: trying again" slot=quick/20260102T120100Z`)
				require.NoError(t, b.run(ctx, "quick/"+slot, 1))
			}
			s, failed := NewTable(b.client).slot(ctx, "quick", slot)
			require.NoError(t, failed)
			require.Equal(t, []any{Done, Pass}, []any{s.State, s.Verdict})
			require.Contains(t, []int{1, 2}, len(b.runs))
			require.Len(t, b.queued(), 2)
			require.NotEmpty(t, s.Started)
			return err
		}
	})
	b.failure = errors.New("the tasks are gone")
	slot := b.begin()
	require.EqualError(t, b.run(ctx, "quick/"+slot, 1), "the tasks are gone")
	require.Empty(t, b.queued(), "asynq repeats the task itself")
}

// TestBeginOfAScheduler: a scheduler that cannot read Redis does not begin, and says so.
func TestBeginOfAScheduler(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	b.rdb = struct{ redis.UniversalClient }{b.rdb} // not one server, so it ends after the work that Run begins with
	b.faults.Each(t, func() func() error {
		require.NoError(t, b.client.HSet(t.Context(), key("entries"), "old", "{}").Err())
		require.NoError(t, b.client.ZAdd(t.Context(), key("notices"), redis.Z{Member: "quick/20260102T120100Z"}).Err())
		return func() error {
			err := b.Run(t.Context())
			require.ErrorContains(t, err, "schedule evaluations: ")
			if !strings.Contains(err.Error(), "they need one Redis server") {
				return err
			}
			require.Zero(t, b.client.Exists(t.Context(), key("entries"), key("notices")).Val())
			return nil
		}
	})
}

// TestWaits: the time between attempts at a run grows by the same time. That between attempts at a
// notice doubles, up to an hour.
func TestWaits(t *testing.T) {
	t.Parallel()
	s := &Scheduler{options: Options{Retry: 2 * time.Second}}
	for attempt, want := range map[int][2]time.Duration{
		1: {2 * time.Second, 2 * time.Second}, 2: {4 * time.Second, 4 * time.Second}, 3: {6 * time.Second, 8 * time.Second},
		11: {22 * time.Second, 2048 * time.Second}, 12: {24 * time.Second, 2048 * time.Second},
	} {
		require.Equal(t, want, [2]time.Duration{s.waitForRun(attempt), s.waitForNotice(attempt)}, attempt)
	}
	s.options.Retry = DefaultRetry
	require.Equal(t, time.Hour, s.waitForNotice(8))
	require.Equal(t, 32*time.Minute, s.waitForNotice(7))
}
