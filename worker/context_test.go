package worker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

// withOptions makes a worker whose engine has these options.
func withOptions(t testing.TB, q queue.Queue, name string, o engine.Options) *bench {
	t.Helper()
	backend, err := cpu.New(1)
	require.NoError(t, err)
	eng, err := engine.Open(tiny, backend, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close()) })
	w, err := New(eng, q, Config{Name: name, Concurrency: 4, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return &bench{queue: q, worker: w}
}

// Two workers of one alias have contexts of 64 and 512 tokens. Every row that the longer context
// can answer is answered, as that worker alone would answer it, and only rows that are too long for
// both are errors.
func TestLongRowsGoToTheLongerContext(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 200
		var text strings.Builder
		for i := range n {
			words, tokens := 4, 3
			switch i % 4 {
			case 1:
				words = 100 // too long for the short context
			case 2:
				tokens = 90 // the short context would end the answer
			}
			if i%50 == 49 {
				words = 2000 // too long for both
			}
			fmt.Fprintf(&text, "{\"custom_id\":\"%d\",\"prompt\":%q,\"max_tokens\":%d,\"ignore_eos\":true}\n", i, strings.Repeat("cat ", words), tokens)
		}
		short := withOptions(t, q, "short", engine.Options{Context: 64})
		long := withOptions(t, q, "long", engine.Options{Context: 512})
		var handedBack atomic.Int64
		generate := short.worker.generate
		short.worker.generate = func(ctx context.Context, r generation.Request) (generation.Completion, error) {
			c, err := generate(ctx, r)
			if err != nil || endedByContext(r, c) {
				handedBack.Add(1)
			}
			return c, err
		}
		for _, b := range []*bench{short, long} {
			_, err := b.worker.model.wait(t.Context())
			require.NoError(t, err)
			b.start(t)
		}
		require.Eventually(t, func() bool {
			fleet, err := q.Fleet(t.Context())
			return err == nil && len(fleet) == 2 && fleet[0].ModelSHA256 != "" && fleet[1].ModelSHA256 != ""
		}, time.Minute, time.Millisecond)
		short.enqueue(t, text.String(), enqueue.Options{})
		rows := short.results(t)
		require.Len(t, rows, n)
		for i := range n {
			row := rows[fmt.Sprint(i)]
			if i%50 == 49 {
				require.NotNil(t, row.Error)
				require.Equal(t, openai.CodeContext, row.Error.Code)
				require.Contains(t, row.Error.Message, "the context holds 512")
				continue
			}
			require.Nil(t, row.Error, i)
			want := 3
			if i%4 == 2 {
				want = 90
			}
			require.Equal(t, want, row.Response.Body.Usage.CompletionTokens, i)
			require.False(t, row.Stats.ContextFull)
			require.Equal(t, 1, row.Stats.Attempts, i)
			if i%4 == 1 || i%4 == 2 {
				require.Equal(t, 512, row.Stats.Context, i)
			}
		}
		require.LessOrEqual(t, int(handedBack.Load()), n/2+n/50, "the short worker hands a row back once")
	})
}

// The worker with the longer context stops after a few rows. The other rows that are too long
// become errors, and answers that the context ends are recorded as such.
func TestLongRowsWithoutTheLongerContext(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		const n, answered = 40, 3
		var text strings.Builder
		for i := range n {
			words, tokens := 4, 90 // the short context would end the answer
			if i%2 == 0 {
				words, tokens = 100, 3 // too long for the short context
			}
			fmt.Fprintf(&text, "{\"custom_id\":\"%d\",\"prompt\":%q,\"max_tokens\":%d,\"ignore_eos\":true}\n", i, strings.Repeat("cat ", words), tokens)
		}
		short := withOptions(t, q, "short", engine.Options{Context: 64})
		long := withOptions(t, q, "long", engine.Options{Context: 512})
		long.worker.config.ShutdownTimeout = time.Millisecond
		generate := long.worker.generate
		var calls atomic.Int64
		long.worker.generate = func(ctx context.Context, r generation.Request) (generation.Completion, error) {
			if calls.Add(1) > answered {
				<-ctx.Done()
				return generation.Completion{}, ctx.Err()
			}
			return generate(ctx, r)
		}
		for _, b := range []*bench{short, long} {
			b.worker.model.run(t.Context())
		}
		stop := long.start(t)
		require.Eventually(t, func() bool {
			fleet, err := q.Fleet(t.Context())
			return err == nil && len(fleet) == 1 && fleet[0].ModelSHA256 != ""
		}, time.Minute, time.Millisecond)
		short.start(t)
		short.enqueue(t, text.String(), enqueue.Options{})
		require.Eventually(t, func() bool {
			s, err := q.Status(t.Context(), "b")
			return err == nil && s.Done == answered && s.Failed == 0 && calls.Load() >= answered+int64(long.worker.config.Concurrency)
		}, time.Minute, time.Millisecond)
		stop()
		rows := short.results(t)
		require.Len(t, rows, n)
		byLong := 0
		for name, row := range rows {
			switch {
			case row.Error != nil:
				require.Equal(t, openai.CodeContext, row.Error.Code, name)
				require.Contains(t, row.Error.Message, "the context holds 64", name)
			case row.Stats.Context == 512:
				require.False(t, row.Stats.ContextFull, name)
				byLong++
			default:
				require.True(t, row.Stats.ContextFull, name)
				require.Less(t, row.Response.Body.Usage.CompletionTokens, 64, name)
			}
		}
		require.Equal(t, answered, byLong)
	})
}

// Without a worker with a longer context, a row that is too long is an error, and an answer that
// the context ended says so.
func TestARowThatIsTooLongForAllIsAnError(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	b := withOptions(t, q, "short", engine.Options{Context: 64})
	b.start(t)
	b.enqueue(t, fmt.Sprintf("{\"custom_id\":\"long\",\"prompt\":%q}\n{\"custom_id\":\"full\",\"prompt\":\"a\",\"max_tokens\":90,\"ignore_eos\":true}\n",
		strings.Repeat("cat ", 100)), enqueue.Options{})
	rows := b.results(t)
	require.Equal(t, openai.CodeContext, rows["long"].Error.Code)
	require.Nil(t, rows["full"].Error)
	require.True(t, rows["full"].Stats.ContextFull)
	require.Equal(t, 64, rows["full"].Stats.Context)
}

// A checkpoint made with one type of the KV cache is not continued with another.
func TestACheckpointIsOfOneKVType(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	f16 := withOptions(t, q, "f16", engine.Options{Context: 64, KV: gguf.TypeF16})
	origin, err := f16.worker.model.wait(t.Context())
	require.NoError(t, err)
	point := &queue.Checkpoint{Fingerprint: origin.Pin(), Prompts: []generation.Progress{{Prompt: 1, Choices: [][]int32{{5, 6}}}}}
	d := &queue.Delivery{Job: &queue.Job{Batch: "b", Line: 1}, Checkpoint: point.Encode()}
	require.Equal(t, 2, f16.worker.checkpoints.read(t.Context(), d, f16.worker.log).Tokens())
	q40 := withOptions(t, q, "q4_0", engine.Options{Context: 64, KV: gguf.TypeQ40})
	require.Nil(t, q40.worker.checkpoints.read(t.Context(), d, q40.worker.log))
}

// Workers with different types of the KV cache do not mix their answers. The log says in what they
// differ. Statistics and system_fingerprint show the type.
func TestAnotherKVTypeLeavesTheRows(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		f16 := withOptions(t, q, "f16", engine.Options{Context: 64, KV: gguf.TypeF16})
		q40 := withOptions(t, q, "q4_0", engine.Options{Context: 64, KV: gguf.TypeQ40})
		var log bytes.Buffer
		q40.worker.log = slog.New(slog.NewTextHandler(&log, nil))
		q40.worker.refusals.pause = 200 * time.Millisecond
		for _, b := range []*bench{f16, q40} {
			b.worker.model.run(t.Context())
		}
		f16.enqueue(t, prompts(10), enqueue.Options{})
		origin, _ := f16.worker.model.known()
		j := &queue.Job{Batch: "b", Line: 1, Sum: "00000001", CustomID: "row-1"}
		_, err := q.Record(t.Context(), "b", queue.Answered(j, new(openai.Request), nil, time.Now(), queue.Stats{Origin: origin}))
		require.NoError(t, err)
		stopOther := q40.start(t)
		require.Eventually(t, func() bool {
			q40.worker.refusals.mu.Lock()
			defer q40.worker.refusals.mu.Unlock()
			return len(q40.worker.refusals.logged) > 0
		}, time.Minute, time.Millisecond)
		stop := f16.start(t)
		rows := f16.results(t)
		stopOther()
		stop()
		require.Len(t, rows, 10)
		require.Contains(t, log.String(), "answers with --kv f16; this worker has --kv q4_0")
		require.Contains(t, log.String(), "--mix-models")
		for name, row := range rows {
			require.Nil(t, row.Error, name)
			require.Contains(t, row.Stats.Arithmetic, "/f16", name)
			require.Equal(t, row.Stats.Fingerprint(), row.Response.Body.Fingerprint, name)
			require.Contains(t, row.Response.Body.Fingerprint, "-f16-64", name)
		}
	})
}
