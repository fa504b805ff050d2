package redisqueue

import (
	"context"
	"errors"
	"io/fs"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// What becomes of a row follows from what its handler returns, or from why it was not called.
func TestWhatBecomesOfARow(t *testing.T) {
	t.Parallel()
	returns := func(o queue.Outcome) queue.Handler {
		return func(context.Context, *queue.Delivery) queue.Outcome { return o }
	}
	failure := errors.New("too hot")
	for name, c := range map[string]struct {
		handle                  queue.Handler // nil if it must not be called
		setup                   func(s *server, d *delivery)
		notBegun                bool
		state                   string // of the task; empty if it is deleted
		attempts, failed, slots int    // slots: reservations that were ended
		next                    int    // line of the next row
		after                   time.Duration
		refused                 error
		says                    string // in the task's message
		returning               bool
	}{
		"done":        {handle: returns(queue.Done()), attempts: 1, next: 2, slots: 1},
		"retry":       {handle: returns(queue.Retry(time.Hour, failure)), state: "retry", attempts: 1, failed: 1, next: 2, slots: 1, after: time.Hour, says: "too hot"},
		"refuse":      {handle: returns(queue.Refuse(failure)), state: "retry", next: 2, slots: 1, after: queue.RefusalDelay, says: "too hot"},
		"passed on":   {handle: returns(queue.PassOn(9, failure)), state: "retry", next: 2, slots: 1, after: queue.PassOnDelay, says: "too hot"},
		"handed back": {handle: returns(queue.HandBack()), state: "pending", next: 1, slots: 1, returning: true},
		"interrupted": {handle: returns(queue.Interrupted(failure)), state: "pending", attempts: 1, next: 2, slots: 1},
		"a panic": {handle: func(context.Context, *queue.Delivery) queue.Outcome { panic("oops") }, state: "retry", attempts: 1, failed: 1, next: 2, slots: 1,
			after: time.Second, says: "internal error: oops"},
		"it ends meanwhile": {handle: func(_ context.Context, d *queue.Delivery) queue.Outcome { return queue.Retry(time.Hour, failure) },
			setup: func(_ *server, d *delivery) { d.end(queue.ErrCancelled) }, state: "pending", attempts: 1, next: 2, slots: 1},
		"the worker stops": {handle: returns(queue.Retry(time.Hour, failure)), setup: func(s *server, _ *delivery) {
			ctx, cancel := context.WithCancel(s.deliveries)
			cancel()
			s.deliveries = ctx
		}, state: "pending", attempts: 1, next: 1, slots: 1, returning: true},
		"begun by its handler": {handle: returns(queue.Done()), notBegun: true, attempts: 1, next: 2, slots: 1},
		"not admitted": {notBegun: true, setup: func(s *server, _ *delivery) {
			s.options.Admit = func(_ context.Context, _ *queue.Delivery, wait bool) (func(), bool) { return nil, !wait }
		}, state: "pending", next: 1, returning: true},
		"cancelled before it is admitted": {notBegun: true, setup: func(s *server, d *delivery) {
			s.options.Admit = func(context.Context, *queue.Delivery, bool) (func(), bool) { return nil, false }
			d.end(queue.ErrCancelled)
		}, state: "pending", next: 2},
		"of another model":   {notBegun: true, setup: func(_ *server, d *delivery) { d.err = queue.ErrOtherModel }, state: "retry", next: 2, after: queue.RefusalDelay, refused: queue.ErrOtherModel},
		"of no batch":        {notBegun: true, setup: func(_ *server, d *delivery) { d.err = queue.ErrNoBatch }, next: 2, refused: queue.ErrNoBatch},
		"recorded by now":    {notBegun: true, setup: func(_ *server, d *delivery) { d.err = queue.ErrRecorded }, next: 2, refused: queue.ErrRecorded},
		"another has it":     {notBegun: true, setup: func(_ *server, d *delivery) { d.err = queue.ErrSuperseded }, state: "pending", next: 2},
		"no task is running": {notBegun: true, setup: func(_ *server, d *delivery) { d.err = errNotRunning }, state: "pending", next: 2},
		"no job":             {notBegun: true, setup: func(_ *server, d *delivery) { d.job, d.notAJob = nil, errNoJob }, state: "archived", failed: 1, next: 2, says: "not a job of ingot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 3)
			d := f.take(1, 0, "w")
			s := d.feed.server
			slots := 0
			var refused error
			s.options.Refused = func(_ context.Context, _ *queue.Delivery, reason error) { refused = reason }
			s.options.Admit = func(context.Context, *queue.Delivery, bool) (func(), bool) { return func() { slots++ }, true }
			s.handle = func(ctx context.Context, row *queue.Delivery) queue.Outcome {
				require.NotNil(t, c.handle)
				require.Equal(t, 1, row.Attempt)
				return c.handle(ctx, row)
			}
			if !c.notBegun {
				require.True(t, s.admit(d, false))
				_, err := f.begin(d)
				require.NoError(t, err)
			}
			if c.setup != nil {
				c.setup(s, d)
			}
			s.process(d)
			require.Empty(t, s.member.debts)
			require.Empty(t, s.member.held)
			require.Error(t, d.ctx.Err())
			require.Equal(t, c.slots, slots)
			require.Equal(t, c.refused, refused)
			require.Equal(t, c.returning, s.returning.Load())
			rdb, task := f.queue.rdb, taskKey("m:default", "b:1")
			ctx := t.Context()
			require.Equal(t, c.state, rdb.HGet(ctx, task, "state").Val())
			require.Equal(t, c.attempts, f.count("attempts", 1))
			failures, err := rdb.Get(ctx, asynqKey("m:default", "failed")).Int()
			require.True(t, err == nil || isNil(err), "%v", err)
			require.Equal(t, c.failed, failures)
			require.Contains(t, rdb.HGet(ctx, task, "msg").Val(), c.says)
			if c.state == "retry" {
				due := rdb.ZScore(ctx, asynqKey("m:default", "retry"), "b:1").Val()
				require.InDelta(t, float64(time.Now().Add(c.after).Unix()), due, 5)
			}
			require.Equal(t, c.next, f.take(c.next, 0, "w").job.Line)
		})
	}
}

// Messages that carry no job of their task are not run.
func TestTasksThatAreNoJobs(t *testing.T) {
	t.Parallel()
	j := fleetJob("b", 1)
	whole, err := message("m:default", "b:1", j)
	require.NoError(t, err)
	got, err := jobOf("b:1", string(whole))
	require.NoError(t, err)
	require.Equal(t, j, got)
	require.Equal(t, j.File, fileOf(string(whole)))
	broken := appendText(nil, fieldPayload, "{")
	for name, c := range map[string]struct{ id, message, says string }{
		"no message":      {"b:1", "", "not a job of ingot: asynq's message has no payload"},
		"cut off":         {"b:1", string(whole[:len(whole)-1]), "not a job of ingot: "},
		"no job":          {"b:1", string(broken), "not a job of ingot: "},
		"of another line": {"b:2", string(whole), "not a job of ingot: the task's id does not name line 1 of batch b"},
	} {
		_, err := jobOf(c.id, c.message)
		require.ErrorIs(t, err, errNoJob, name)
		require.ErrorContains(t, err, c.says, name)
	}
	require.Equal(t, "none", fileOf(""))
	require.Equal(t, "none", fileOf(string(broken)))
	j.File = "0123456789abcdef"
	whole, err = message("m:default", "b:1", j)
	require.NoError(t, err)
	require.Equal(t, j.File, fileOf(string(whole)))
}

// Replies of scripts that are not as expected are errors.
func TestUnexpectedReplies(t *testing.T) {
	t.Parallel()
	for number, want := range map[int64]error{1: nil, 0: queue.ErrRecorded} {
		require.Equal(t, want, refusalOf(number))
	}
	for _, r := range replies {
		require.Equal(t, r.err, refusalOf(r.number))
		require.Equal(t, r.err != nil, isRefusal(r.err))
	}
	require.ErrorContains(t, refusalOf(-99), "the reply of redis is -99, which is not known")
	require.False(t, isRefusal(errors.New("x")))
	require.False(t, isRefusal(nil))

	list := []any{int64(1), "OOM no memory", errors.New("WRONGTYPE"), []any{int64(2)}}
	for i, want := range []string{"", "OOM no memory", "WRONGTYPE", "", "the reply of redis has no entry for this row"} {
		reply, err := rowReply(list, i, nil)
		if want != "" {
			require.ErrorContains(t, err, want)
			require.Nil(t, reply)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, list[i], reply)
	}
	_, err := rowReply(list, 0, context.Canceled)
	require.Equal(t, context.Canceled, err)
	_, err = rowReply(list, 1, nil)
	require.ErrorIs(t, failure(err, "record"), queue.ErrFull)

	row := toRecord{batch: "b", result: queue.Result{Line: 7}}
	for _, c := range []struct {
		reply any
		first bool
		says  string
	}{{int64(1), true, ""}, {int64(0), false, ""}, {int64(-99), false, "record line 7 of batch b: the reply of redis is -99"}, {"ERR x", false, "record line 7 of batch b: ERR x"}, {nil, false, "not a number: <nil>"}} {
		first, err := row.read([]any{c.reply}, 0, nil)
		require.Equal(t, c.first, first)
		if c.says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.says)
		}
	}

	d := new(delivery)
	require.ErrorContains(t, d.setAttempt([]any{}), "the reply of redis is not an attempt: []")
	require.ErrorContains(t, d.setAttempt(nil), "the reply of redis is not an attempt: <nil>")
	require.ErrorIs(t, d.setAttempt([]any{int64(0)}), queue.ErrRecorded)
	require.NoError(t, d.setAttempt([]any{int64(3)}))
	require.Equal(t, 3, d.value.Attempt)
	require.Nil(t, d.value.Checkpoint)
	require.NoError(t, d.setAttempt([]any{int64(4), "progress"}))
	require.Equal(t, []any{4, "progress"}, []any{d.value.Attempt, string(d.value.Checkpoint)})
}

// An entry of a batch's stream that is not valid is damage, which names the entry.
func TestEntriesOfAStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values map[string]any
		want   queue.Recording
	}{
		"an answer":           {map[string]any{"line": "7", "sum": "0badcafe", "failed": "0"}, queue.Recording{ID: "1-0", Line: 7, Sum: "0badcafe"}},
		"a failure":           {map[string]any{"line": "7", "sum": "0badcafe", "failed": "1"}, queue.Recording{ID: "1-0", Line: 7, Sum: "0badcafe", Failed: true}},
		"an earlier failure":  {map[string]any{"line": "7", "sum": "0badcafe", "outcome": "failed"}, queue.Recording{ID: "1-0", Line: 7, Sum: "0badcafe", Failed: true}},
		"queued again":        {map[string]any{"line": "7", "sum": "0badcafe", "was": "0-9"}, queue.Recording{ID: "1-0", Line: 7, Sum: "0badcafe", Requeued: "0-9"}},
		"no line":             {map[string]any{"sum": "0badcafe"}, queue.Recording{ID: "1-0", Damage: `entry 1-0 of the stream: line "" is not a number`}},
		"a line that is none": {map[string]any{"line": "x", "sum": "0badcafe"}, queue.Recording{ID: "1-0", Damage: `entry 1-0 of the stream: line "x" is not a number`}},
	} {
		require.Equal(t, c.want, recording(redis.XMessage{ID: "1-0", Values: c.values}), name)
	}
	require.Contains(t, recording(redis.XMessage{ID: "1-0", Values: map[string]any{"line": "0", "sum": "0badcafe"}}).Damage, "entry 1-0 of the stream")
	require.Contains(t, recording(redis.XMessage{ID: "1-0", Values: map[string]any{"line": "1", "sum": "x"}}).Damage, "entry 1-0 of the stream")
}

// A failed row whose stored job is damaged, or that of another row, is named. Rows whose deadline
// has passed lose it.
func TestStoredJobsOfFailedRows(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	ctx, q := t.Context(), f.queue
	s, err := q.Status(ctx, "b")
	require.NoError(t, err)
	store := func(line int, text string) {
		require.NoError(t, q.rdb.HSet(ctx, key("b", "jobs"), line, text).Err())
	}
	late := fleetJob("b", 1)
	late.DeadlineMS = time.Now().Add(-time.Hour).UnixMilli()
	text, err := late.Encode()
	require.NoError(t, err)
	store(1, string(text))
	n, err := q.queueAgain(ctx, s, []int{1, 5})
	require.NoError(t, err, "line 5 has just been answered")
	require.Equal(t, 1, n)
	require.Zero(t, f.take(1, 0, "w").job.DeadlineMS)
	n, err = q.queueAgain(ctx, s, []int{1})
	require.NoError(t, err)
	require.Zero(t, n, "it is queued already")
	store(2, string(text))
	_, err = q.queueAgain(ctx, s, []int{2})
	require.ErrorContains(t, err, "queue line 2 of batch b again: the stored job belongs to another row")
	store(3, "{")
	_, err = q.queueAgain(ctx, s, []int{3})
	require.ErrorContains(t, err, "queue line 3 of batch b again: ")
	for _, field := range []string{"x", "0", "-4"} {
		require.NoError(t, q.rdb.HSet(ctx, key("b", "jobs"), field, "{}").Err())
	}
	lines, err := q.unrecorded(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 3}, lines)
}

// A server may have no command CONFIG.
func TestMaxBytesOfAServerWithoutCONFIG(t *testing.T) {
	t.Parallel()
	n, err := New(redistest.Start(t, "--rename-command", "CONFIG", "").Client).MaxBytes(t.Context())
	require.NoError(t, err)
	require.Equal(t, defaultMaxBulk, n)
}

// The largest job or result follows from the server's settings, as far as the user may read them.
func TestMaxBytes(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	ctx := t.Context()
	q := New(r.Client)
	for _, c := range []struct {
		bulk, memory string
		want         int
	}{
		{"512mb", "0", 512 << 20}, {"2mb", "0", 2 << 20}, {"1gb", "0", 1 << 30}, {"512mb", "20mb", 10 << 20}, {"8mb", "20mb", 8 << 20}, {"512mb", "1500000", 1 << 20},
	} {
		require.NoError(t, r.Client.ConfigSet(ctx, "maxmemory", c.memory).Err())
		require.NoError(t, r.Client.ConfigSet(ctx, "proto-max-bulk-len", c.bulk).Err())
		n, err := q.MaxBytes(ctx)
		require.NoError(t, err)
		require.Equal(t, c.want, n, "%+v", c)
	}
	require.NoError(t, r.Client.Do(ctx, "ACL", "SETUSER", "default", "-config|get").Err())
	n, err := q.MaxBytes(ctx)
	require.NoError(t, err)
	require.Equal(t, defaultMaxBulk, n)
	require.NoError(t, r.Client.Do(ctx, "ACL", "SETUSER", "default", "+config|get").Err())
	n, err = q.setting(ctx, "no-such-setting")
	require.NoError(t, err)
	require.Zero(t, n)
}

// The check of rights tries every command that a script calls.
func TestRightsAreThoseOfTheScripts(t *testing.T) {
	t.Parallel()
	list, err := sources.ReadFile("lua/rights.lua")
	require.NoError(t, err)
	call := regexp.MustCompile(`redis\.p?call\('([A-Z_]+)'`)
	called := map[string]bool{}
	err = fs.WalkDir(sources, "lua", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		script, err := fs.ReadFile(sources, path)
		for _, m := range call.FindAllSubmatch(script, -1) {
			called[string(m[1])] = true
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(called), 30)
	for command := range called {
		require.Regexp(t, `(?m)^`+command+`( |$)`, string(list))
	}
}
