package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
)

// bench is a scheduler that does not run by itself, on a Redis server of its own. The test calls
// its methods, sets the server's time, and can let commands fail or do something before them.
type bench struct {
	*Scheduler
	t       *testing.T
	client  *redis.Client // for the test; the scheduler has another one
	faults  *redistest.Faults
	clock   *clock
	logged  *bytes.Buffer
	outcome Outcome // of each run
	failure error
	runs    []string // the runs that Evaluate was called with
}

// noon is the time of a bench's server at first.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// quick is an entry that runs every minute.
const quick = "name: quick, cron: '* * * * *', tasks: [a], missed: all"

// setup returns a bench with a schedule of one entry: the fields are in YAML.
func setup(t *testing.T, fields string) *bench {
	t.Helper()
	b := &bench{
		t: t, client: redistest.Start(t).Client, faults: new(redistest.Faults), clock: &clock{now: noon}, logged: new(bytes.Buffer),
		outcome: Outcome{Pass, "good"},
	}
	file := filepath.Join(t.TempDir(), "schedule.yaml")
	require.NoError(t, os.WriteFile(file, []byte("entries: [{"+fields+"}]"), 0o600))
	const maxWait = 5 * time.Minute // as in redistest: a command that times out would be repeated
	hooked := redis.NewClient(&redis.Options{Addr: b.client.Options().Addr, ReadTimeout: maxWait, WriteTimeout: maxWait})
	t.Cleanup(func() { require.NoError(t, hooked.Close()) })
	var err error
	b.Scheduler, err = New(hooked, Options{
		File: file, Logger: slog.New(slog.NewTextHandler(b.logged, nil)),
		Evaluate: func(_ context.Context, e *Entry, run string) (Outcome, error) {
			require.Equal(t, "quick", e.Name)
			b.runs = append(b.runs, run)
			return b.outcome, b.failure
		},
	})
	require.NoError(t, err)
	hooked.AddHook(b.faults)
	hooked.AddHook(b.clock)
	return b
}

// begin adds the entry "quick" to the table at noon, and its slot of a minute later.
func (b *bench) begin() (slot string) {
	b.t.Helper()
	ctx := b.t.Context()
	require.NoError(b.t, b.client.FlushAll(ctx).Err())
	b.clock.now = noon
	b.logged.Reset()
	require.NoError(b.t, b.table.beat(ctx, b.id, *b.entries.Load()))
	require.Empty(b.t, b.fire(noon))
	require.Equal(b.t, "1201 waiting", b.fire(noon.Add(time.Minute)))
	return "20260102T120100Z"
}

// fire adds the slots of "quick" that are due at a time, and returns them as in the table.
func (b *bench) fire(now time.Time) string {
	b.t.Helper()
	due, err := b.table.fire(b.t.Context(), b.entry("quick"), now)
	require.NoError(b.t, err)
	var list []string
	for _, s := range due {
		state, err := b.client.HGet(b.t.Context(), slotKey("quick", s.name()), "state").Result()
		require.NoError(b.t, err)
		list = append(list, s.name()[9:13]+" "+state)
	}
	return strings.Join(list, ", ")
}

// open returns the times of the slots of "quick" that are not finished.
func (b *bench) open() string {
	b.t.Helper()
	names, err := b.client.ZRange(b.t.Context(), key("open", "quick"), 0, -1).Result()
	require.NoError(b.t, err)
	for i := range names {
		names[i] = names[i][9:13]
	}
	return strings.Join(names, ", ")
}

// queued returns the tasks in asynq's queue.
func (b *bench) queued() []string {
	b.t.Helper()
	tasks, err := asynq.NewInspectorFromRedisClient(b.client).ListPendingTasks(ticks)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return nil
	}
	require.NoError(b.t, err)
	list := []string{}
	for _, task := range tasks {
		list = append(list, fmt.Sprintf("%s %s: %d retries, %v", task.Type, task.Payload, task.MaxRetry, task.Timeout))
	}
	slices.Sort(list)
	return list
}

// clock is a hook of a client that sets the time of the server, and can do something before a
// command.
type clock struct {
	now    time.Time
	before func(command string)
}

// DialHook implements redis.Hook.
func (c *clock) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (c *clock) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c.before != nil {
			c.before(cmd.Name())
		}
		if now, ok := cmd.(*redis.TimeCmd); ok {
			now.SetVal(c.now)
			return nil
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *clock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// once returns a function that does something before the first command of a name.
func once(command string, do func()) func(string) {
	return func(name string) {
		if name == command && do != nil {
			now := do
			do = nil
			now()
		}
	}
}
