package redisqueue

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// The status of a batch follows from the fields of its hash; a field that is not valid makes it
// damaged.
func TestStatusOfFields(t *testing.T) {
	t.Parallel()
	at := func(ms int64) *time.Time { t := time.UnixMilli(ms).UTC(); return &t }
	whole := map[string]string{
		"model": "m", "priority": "bulk", "file_sha256": "abc", "created_ms": "1000", "started_ms": "2000", "last_ms": "6000", "deadline_ms": "9000",
		"weight": "3", "total": "10", "done": "4", "failed": "2", "prompt_tokens": "5", "cached_tokens": "60", "completion_tokens": "700", "draft_tokens": "8000", "accepted_tokens": "90000",
		"alias:n": "", "alias:m": "", "alias:not valid": "", "pin": "one", "pin:n": "two",
	}
	with := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for k, v := range whole {
			m[k] = v
		}
		for i := 0; i < len(pairs); i += 2 {
			if m[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
				delete(m, pairs[i])
			}
		}
		return m
	}
	s, err := newStatus("b", whole, 3, -1)
	require.NoError(t, err)
	require.Equal(t, []any{"b", "m", queue.Bulk, queue.InProgress, "abc", 3}, []any{s.Batch, s.Alias, s.Priority, s.State, s.FileSHA, s.Weight})
	require.Equal(t, []int{10, 4, 2, 3}, []int{s.Total, s.Done, s.Failed, s.Running})
	require.Equal(t, []int{5, 60, 700, 8000, 90000}, []int{s.PromptTokens, s.CachedTokens, s.CompletionTokens, s.DraftTokens, s.AcceptedTokens})
	require.Equal(t, []queue.Model{{Alias: "m", Pin: "one"}, {Alias: "n", Pin: "two"}}, s.Models)
	require.Equal(t, []*time.Time{at(2000), nil, nil, nil, at(9000)}, []*time.Time{s.Started, s.Finished, s.Cancelled, s.Expires, s.Deadline})
	require.Equal(t, *at(1000), s.Created)
	require.Equal(t, 4*time.Second, s.Took())
	require.InDelta(t, 1.5, s.RowsPerSecond, 1e-12)

	for name, c := range map[string]struct {
		fields map[string]string
		state  queue.State
		weight int
	}{
		"its rows are being queued":    {with("total", "", "weight", ""), queue.Enqueueing, 1},
		"it is cancelled":              {with("cancelled_ms", "7000"), queue.Cancelled, 3},
		"it is finished":               {with("finished_ms", "8000"), queue.Completed, 3},
		"it was finished first":        {with("finished_ms", "8000", "cancelled_ms", "9000"), queue.Completed, 3},
		"a request whose client waits": {with("priority", "interactive", "weight", "0"), queue.InProgress, 1},
	} {
		s, err := newStatus("b", c.fields, 0, time.Hour)
		require.NoError(t, err, name)
		require.Equal(t, c.state, s.State, name)
		require.Equal(t, c.weight, s.Weight, name)
		require.WithinDuration(t, time.Now().Add(time.Hour), *s.Expires, 5*time.Second)
	}
	for _, c := range []struct{ field, value, says string }{
		{"model", "a:b", "not a valid model name"}, {"model", "", "not a valid model name"}, {"priority", "urgent", "not a priority"}, {"priority", "", "not a priority"},
		{"done", "x", `done is "x"`}, {"done", "-1", `done is "-1"`}, {"done", "1.5", "not a number from 0 to 9007199254740992"},
		{"total", "9007199254740993", `total is "9007199254740993"`}, {"started_ms", "soon", `started_ms is "soon"`}, {"prompt_tokens", "x", "prompt_tokens is"},
	} {
		_, err := newStatus("b", with(c.field, c.value), 0, -1)
		require.ErrorContains(t, err, c.says)
	}
	_, err = newStatus("a b", whole, 0, -1)
	require.ErrorContains(t, err, "not a valid batch id")
	s, err = newStatus("b", with("total", "9007199254740992"), 0, -1)
	require.NoError(t, err)
	require.Equal(t, 1<<53, s.Total)
	require.True(t, parseMoment("x", 0).IsZero())
	require.Equal(t, *at(5), parseMoment("5", 0))
}

// How many rows a worker takes ahead, in reserve and in a group, from how long its rows take.
func TestCapacityOfAWorker(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		capacity                            capacity
		limit, group, reserved, room, short int // short: free handlers from which the engine is short
		pause                               time.Duration
	}{
		"nothing is known":        {capacity{running: 16, prefetch: 32}, 20, 3, 0, 20, 2, 0},
		"without rows ahead":      {capacity{running: 16, mean: ms}, 16, 1, 0, 16, 1, ms / 16},
		"long rows":               {capacity{running: 16, prefetch: 32, mean: 10 * time.Second}, 20, 3, 0, 20, 2, 50 * ms},
		"short rows":              {capacity{running: 16, prefetch: 32, mean: ms}, 48, 24, 24, 72, 9, ms / 2},
		"rows of 100 ms":          {capacity{running: 16, prefetch: 32, mean: 100 * ms}, 32, 12, 12, 44, 5, 37500 * time.Microsecond},
		"very many rows":          {capacity{running: 1000, prefetch: 1000, mean: ms}, 2000, 128, 128, 2128, 251, 64 * time.Microsecond},
		"few rows ahead":          {capacity{running: 16, prefetch: 2, mean: ms}, 18, 1, 1, 19, 1, ms / 18},
		"one row":                 {capacity{running: 1, prefetch: 1, mean: time.Second}, 1, 1, 0, 1, 1, 50 * ms},
		"all handlers have rows":  {capacity{running: 16, prefetch: 32, mean: ms, held: 72}, 48, 24, 24, 0, 9, ms / 2},
		"some of them are ending": {capacity{running: 16, prefetch: 32, mean: ms, held: 72, ending: 5}, 48, 24, 24, 5, 9, ms / 2},
		"more rows than room":     {capacity{running: 16, prefetch: 32, mean: ms, held: 90, ending: 5}, 48, 24, 24, 0, 9, ms / 2},
	} {
		require.Equal(t, []int{c.limit, c.group, c.reserved, c.room}, []int{c.capacity.limit(), c.capacity.group(), c.capacity.reserved(), c.capacity.room()}, name)
		require.Equal(t, c.pause, c.capacity.pause(), name)
		for free := range c.limit {
			now := c.capacity
			now.held, now.ending = c.limit-free+2+7, 7
			require.Equal(t, free, now.free(2), name)
			require.Equal(t, free >= c.short, now.isShort(2), "%s: %d free", name, free)
		}
	}
}

// asynq's tools show a failure, when it happened and how often; the job stays as it is.
func TestMessagesOfFailedTasks(t *testing.T) {
	t.Parallel()
	job := fleetJob("b", 1)
	m, err := message("m:default", "b:1", job)
	require.NoError(t, err)
	at := time.Unix(1_700_000_000, 0)
	text := string(m)
	retried := func(text string) int {
		m, _ := parse(text)
		return m.retried
	}
	require.Zero(t, retried(text))
	for i, c := range []struct {
		err     error
		counted bool
		want    int
	}{{errors.New("first"), true, 1}, {errors.New("bad \xff"), true, 2}, {nil, false, 2}, {errors.New("later"), false, 2}, {errors.New("last"), true, 3}} {
		text = failedMessage(text, at, c.err, c.counted)
		require.Equal(t, c.want, retried(text), i)
		parsed, err := parse(text)
		require.NoError(t, err)
		got, err := queue.Decode(parsed.payload)
		require.NoError(t, err)
		require.Equal(t, job, got)
	}
	require.Contains(t, text, "last")
	require.NotContains(t, text, "later", "only the last failure is shown")
	require.Less(t, len(text), len(m)+30)
	require.Contains(t, failedMessage(string(m), at, errors.New("bad \xff"), true), "bad ?")
	require.Equal(t, "\xff", failedMessage("\xff", at, errors.New("x"), true), "not a message of asynq")
	_, err = jobOf("b:1", "")
	require.ErrorContains(t, err, "asynq's message has no payload")
	_, err = parse(string(m[:len(m)-1]))
	require.Error(t, err)
	require.Equal(t, 1<<20, retried(string(appendNumber(nil, fieldRetried, math.MaxUint64))))
	require.Equal(t, "2023-11-14", today(at))
	require.Equal(t, "2023-11-15", today(time.Date(2023, 11, 14, 23, 30, 0, 0, time.FixedZone("", -3600))), "days are those of UTC")
	require.EqualValues(t, 1_700_000_000+90*24*3600, statsEnd(at))
}

// A worker counts for an alias while it lives and its heartbeats are young enough.
func TestWorkersOfAnAlias(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	f.queue.Leases = shortLeases
	ctx, q := t.Context(), f.queue
	for _, id := range []string{"v", "w"} {
		require.NoError(t, f.member(id).join(ctx))
	}
	count := func(alias string) int {
		n, err := q.Workers(ctx, alias)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, []int{2, 0}, []int{count("m"), count("n")})
	beat := q.rdb.HGet(ctx, fleetKey("beats"), "v").Val()
	lost, err := q.lose(ctx, "v", "1")
	require.NoError(t, err)
	require.False(t, lost, "it has sent another heartbeat")
	lost, err = q.lose(ctx, "v", beat)
	require.NoError(t, err)
	require.True(t, lost)
	require.Equal(t, 1, count("m"))
	all, err := q.Fleet(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, w := range all {
		require.Equal(t, w.ID == "v", !w.Lost.IsZero())
		require.WithinDuration(t, time.Now(), w.Beat, time.Minute)
	}
	require.NoError(t, q.rdb.HSet(ctx, fleetKey("beats"), "w", time.Now().Add(-2*shortLeases.Silence).UnixMilli()).Err())
	require.Zero(t, count("m"), "it is silent, although no worker has declared it lost")
	require.NoError(t, q.rdb.HSet(ctx, fleetKey("records"), "x", "{").Err())
	all, err = q.Fleet(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2, "a record of another version is left out")

	// Records of lost workers are deleted after an hour, when another worker is lost.
	require.NoError(t, q.rdb.HSet(ctx, fleetKey("lost"), "v", strconv.FormatInt(time.Now().Add(-2*time.Hour).UnixMilli(), 10)+" 1").Err())
	_, err = q.lose(ctx, "w", q.rdb.HGet(ctx, fleetKey("beats"), "w").Val())
	require.NoError(t, err)
	all, err = q.Fleet(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "w", all[0].ID)
}

// twice lets SCAN return each key twice, as it may while Redis's table of keys changes.
type twice struct{ sleeper }

func (s *twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if scan, ok := cmd.(*redis.ScanCmd); ok && err == nil {
			keys, cursor := scan.Val()
			scan.SetVal(slices.Concat(keys, keys), cursor)
		}
		return err
	}
}

// Each batch is listed once.
func TestBatchesAreListedOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.enqueue("c", 1, 1)
	f.redis.Client.AddHook(&twice{})
	all, err := f.queue.Batches(t.Context())
	require.NoError(t, err)
	var names []string
	for _, st := range all {
		names = append(names, st.Batch)
	}
	require.ElementsMatch(t, []string{"b", "c"}, names)
}
