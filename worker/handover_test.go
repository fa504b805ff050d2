package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// quick are short leases for tests with one live worker at a time. With no other worker to watch
// it, a slow worker cannot be declared lost by mistake.
var quick = redisqueue.Leases{Beat: 50 * time.Millisecond, Poll: 20 * time.Millisecond, Silence: time.Second, Stop: time.Minute}

// One of 16 rows kills every worker that runs it. Two workers die while they run all 16 rows, then
// three while they run that row alone. The row is then recorded as an error, and the other 15 rows
// have answers.
func TestARowThatKillsWorkers(t *testing.T) {
	t.Parallel()
	const rows, poison, bad = 16, 777, 5
	r := redistest.Start(t)
	b := &bench{queue: redisqueue.New(r.Client)}
	var file strings.Builder
	for i := range rows {
		first := 300 + i
		if i+1 == bad {
			first = poison
		}
		fmt.Fprintf(&file, "{\"custom_id\":\"row-%d\",\"prompt\":[%d,5],\"max_tokens\":8,\"ignore_eos\":true}\n", i+1, first)
	}
	b.enqueue(t, file.String(), enqueue.Options{MaxAttempts: 1})
	ctx, stop := context.WithCancel(t.Context())
	deaths := 0
	var workers sync.WaitGroup
	workers.Go(func() { // starts a new worker whenever one has died
		for ctx.Err() == nil {
			p := process{Concurrency: rows, Leases: quick, Poison: poison}
			if deaths < suspectDeaths {
				p.Neighbours = rows - 1
			}
			cmd := p.start(t, r)
			end := context.AfterFunc(ctx, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
			err := cmd.Wait()
			end()
			if ctx.Err() != nil {
				return
			}
			if code := cmd.ProcessState.ExitCode(); code != 137 {
				t.Errorf("the worker ended: %v", err)
				return
			}
			deaths++
		}
	})
	lines := b.results(t)
	stop()
	workers.Wait()
	require.Len(t, lines, rows)
	require.Equal(t, maxDeaths, deaths)
	for name, row := range lines {
		if name == fmt.Sprintf("row-%d", bad) {
			require.Equal(t, openai.CodeAbandoned, row.Error.Code)
			require.Contains(t, row.Error.Message, "5 workers died")
			continue
		}
		require.Nil(t, row.Error, name)
		require.Equal(t, 8, row.Response.Body.Usage.CompletionTokens)
		require.Equal(t, 1+suspectDeaths, row.Stats.Attempts, "%s: only the deaths of workers that ran all rows are counted", name)
	}
}

// A worker is killed at token 1500 of 2000. Another worker continues from the stored tokens: it
// generates only the missing ones, and the text is the same as without the kill.
func TestAKilledRowGoesOnFromItsCheckpoint(t *testing.T) {
	t.Parallel()
	const tokens, killedAt = 2000, 1500
	r := redistest.Start(t)
	q := redisqueue.New(r.Client)
	q.Leases = quick
	eng := openModel(t, tiny)
	row := fmt.Sprintf("{\"custom_id\":\"row\",\"prompt\":\"Once upon a time\",\"max_tokens\":%d,\"temperature\":0.8,\"seed\":7,"+
		"\"presence_penalty\":0.5,\"ignore_eos\":true,\"return_token_ids\":true}\n", tokens)
	b := &bench{queue: q}
	b.enqueue(t, row, enqueue.Options{})
	doomed := process{Model: tiny, Leases: quick, Checkpoint: 5 * time.Millisecond, FreezeAt: killedAt}.start(t, r)
	stored := 0
	require.Eventually(t, func() bool {
		text, err := r.Client.HGet(t.Context(), "ingot:{b}:checkpoints", "1").Bytes()
		if err != nil {
			return false
		}
		c, err := queue.DecodeCheckpoint(text)
		require.NoError(t, err)
		stored = c.Tokens()
		return stored > killedAt-killedAt/checkpointGrowth // no later checkpoint is possible before killedAt
	}, 2*time.Minute, 5*time.Millisecond, "the last checkpoint has %d tokens", stored)
	require.NoError(t, doomed.Process.Kill())
	require.Error(t, doomed.Wait())
	text, err := r.Client.HGet(t.Context(), "ingot:{b}:checkpoints", "1").Bytes()
	require.NoError(t, err)
	last, err := queue.DecodeCheckpoint(text)
	require.NoError(t, err)

	w, err := New(eng, q, Config{Concurrency: 1})
	require.NoError(t, err)
	b.worker = w
	b.start(t)
	got := b.results(t)["row"]
	require.Nil(t, got.Error)
	require.Equal(t, last.Tokens(), got.Stats.ResumedTokens)
	require.Equal(t, uint64(tokens-last.Tokens()), eng.Snapshot().GeneratedTokens)
	require.Equal(t, 2, got.Stats.Attempts)
	require.Equal(t, tokens, got.Response.Body.Usage.CompletionTokens)
	t.Logf("resumed from token %d of %d", last.Tokens(), tokens)
	left, err := r.Client.Exists(t.Context(), "ingot:{b}:checkpoints").Result()
	require.NoError(t, err)
	require.Zero(t, left)

	want, err := eng.Generate(t.Context(), generation.Request{
		Text: "Once upon a time", MaxTokens: tokens, IgnoreEOS: true,
		Sampling: generation.Sampling{Temperature: 0.8, PresencePenalty: 0.5, Seed: 7},
	})
	require.NoError(t, err)
	require.Equal(t, want.Choices[0].Tokens, got.Response.Body.Choices[0].TokenIDs)
	require.Equal(t, want.Choices[0].Text, got.Response.Body.Choices[0].Text)
}

// One of two workers is killed while it runs rows, and the other worker takes these rows. With
// INGOT_LONG=1, this happens ten times, and each hand-over takes at most 20 s. Otherwise it may
// take longer, since other tests run at the same time.
func TestHandOverTimes(t *testing.T) {
	t.Parallel()
	const held = 4
	rounds, limit := 1, time.Minute
	if os.Getenv("INGOT_LONG") != "" {
		rounds, limit = 10, 20*time.Second
	}
	var times []time.Duration
	for i := range rounds {
		times = append(times, handOverTime(t, held))
		t.Logf("round %d: %v", i+1, times[i])
	}
	slices.Sort(times)
	t.Logf("hand-over after SIGKILL: median %v, worst %v of %d", times[rounds/2], times[rounds-1], rounds)
	require.LessOrEqual(t, times[rounds-1], limit)
}

// handOverTime kills a worker with SIGKILL. It returns the time from the kill until another worker
// has begun all rows of the killed one.
func handOverTime(t *testing.T, rows int) time.Duration {
	t.Helper()
	r := redistest.Start(t)
	queue := redisqueue.New(r.Client)
	b := setUp(t, queue, nil, Config{Concurrency: rows})
	doomed := process{Concurrency: rows, FreezeAt: 1, Checkpoint: time.Millisecond}.start(t, r)
	b.enqueue(t, longPrompts(rows), enqueue.Options{})
	require.Eventually(t, func() bool {
		s, err := queue.Status(t.Context(), "b")
		return err == nil && s.Running == rows
	}, time.Minute, 5*time.Millisecond)

	var mu sync.Mutex
	var begun int
	var last time.Time
	all := make(chan struct{})
	next := b.worker.generate
	b.worker.generate = func(ctx context.Context, req generation.Request) (generation.Completion, error) {
		mu.Lock()
		last = time.Now()
		if begun++; begun == rows {
			close(all)
		}
		mu.Unlock()
		return next(ctx, req)
	}
	stop := b.start(t)
	defer stop()
	require.NoError(t, doomed.Process.Signal(syscall.SIGKILL))
	killed := time.Now()
	require.Error(t, doomed.Wait())
	<-all
	mu.Lock()
	defer mu.Unlock()
	return last.Sub(killed)
}

// One of two workers is stopped until it is declared lost, or for 40 s with INGOT_LONG=1, and then
// continues. Every row is answered once.
func TestASleepingWorkerChangesNothing(t *testing.T) {
	t.Parallel()
	long := os.Getenv("INGOT_LONG") != ""
	n := 60
	if long {
		n = 600
	}
	b, r := onRedis(t, longPrompts(n))
	sleeper, other := process{}.start(t, r), process{}.start(t, r)
	require.Eventually(t, func() bool {
		s, err := b.queue.Status(t.Context(), "b")
		return err == nil && s.Running == 16
	}, time.Minute, time.Millisecond)
	require.NoError(t, sleeper.Process.Signal(syscall.SIGSTOP))
	if long {
		wake := time.AfterFunc(40*time.Second, func() { sleeper.Process.Signal(syscall.SIGCONT) }) //nolint:errcheck // the process may be dead already
		defer wake.Stop()
	}
	requireLongAnswers(t, b.results(t), n) // the other worker answers the rows that the stopped worker held
	fleet, err := b.queue.Fleet(t.Context())
	require.NoError(t, err)
	lost := slices.ContainsFunc(fleet, func(w queue.Worker) bool { return !w.Live() && isOf(sleeper, w.Name) })
	require.True(t, lost, "the stopped worker was declared lost")
	if !long {
		require.NoError(t, sleeper.Process.Signal(syscall.SIGCONT))
	}
	// When the stopped worker continues, it registers again, and asynq's last scripts find no
	// tasks.
	require.Eventually(t, func() bool {
		fleet, err := b.queue.Fleet(t.Context())
		require.NoError(t, err)
		return slices.ContainsFunc(fleet, func(w queue.Worker) bool { return w.Live() && isOf(sleeper, w.Name) })
	}, time.Minute, 100*time.Millisecond)
	for _, p := range []*exec.Cmd{sleeper, other} {
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.Wait())
	}
	for p := range queue.Priorities() {
		queuetest.Take(t, b.queue, queue.DefaultAlias, p, 0)
	}
}

// Two workers are replaced one after the other in the middle of a batch. Each finishes its rows or
// returns them to the queue within its shutdown timeout. No row is lost, and no returned row counts
// an attempt.
func TestARollingUpgrade(t *testing.T) {
	t.Parallel()
	const n = 120
	b, r := onRedis(t, longPrompts(n))
	old := []*exec.Cmd{process{}.start(t, r), process{}.start(t, r)}
	for i, p := range old {
		require.Eventually(t, func() bool {
			s, err := b.queue.Status(t.Context(), "b")
			return err == nil && s.Done > (i+1)*n/4 && s.Running > 0
		}, time.Minute, time.Millisecond)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		stopped := time.Now()
		require.NoError(t, p.Wait())
		require.Less(t, time.Since(stopped), DefaultShutdownTimeout+5*time.Second)
		process{}.start(t, r)
	}
	lines := b.results(t)
	requireLongAnswers(t, lines, n)
	for _, row := range lines {
		require.Equal(t, 1, row.Stats.Attempts)
	}
	fleet, err := b.queue.Fleet(t.Context())
	require.NoError(t, err)
	require.Len(t, fleet, 2, "workers that shut down leave no record")
}
