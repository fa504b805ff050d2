package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
)

// A row that was not begun is logged with the reason, unless nobody needs to know it.
func TestRefusedRowsAreLogged(t *testing.T) {
	t.Parallel()
	for reason, want := range map[error]string{
		queue.ErrNoBatch:    "level=WARN msg=\"dropped a job: its batch does not exist any more\" batch=b line=7",
		queue.ErrOtherFile:  "level=WARN msg=\"dropped a job: it is left over from an earlier batch with the same id\" batch=b line=7",
		queue.ErrCancelled:  "level=DEBUG msg=\"dropped a job: its batch is cancelled\" batch=b line=7",
		queue.ErrNoRow:      "level=WARN msg=\"dropped a job: the file of its batch has no such line\" batch=b line=7",
		queue.ErrRecorded:   "",
		queue.ErrOtherModel: "level=ERROR msg=\"refused a row: its batch has answers of another model file",
	} {
		var log bytes.Buffer
		w := &Worker{
			log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), pulse: newPulse(2, time.Now()),
			queue: memqueue.New(), model: new(model), admission: newAdmission(),
		}
		w.refused(t.Context(), &queue.Delivery{Job: &queue.Job{Batch: "b", Line: 7}}, fmt.Errorf("begin: %w", reason))
		require.Contains(t, log.String(), want)
		require.Equal(t, want == "", log.Len() == 0)
		require.Zero(t, w.pulse.rows)
	}
	var r refusals
	now := time.Now()
	for _, c := range []struct {
		batch string
		after time.Duration
		due   bool
	}{{"a", 0, true}, {"b", 0, true}, {"a", refusalInterval - 1, false}, {"a", refusalInterval, true}, {"b", refusalInterval, true}, {"a", 2*refusalInterval - 1, false}} {
		require.Equal(t, c.due, r.due(c.batch, now.Add(c.after)), "%+v", c)
	}
}

// Rows run together up to a total size, and alone after two deaths. None is admitted when the
// worker stops.
func TestAdmission(t *testing.T) {
	t.Parallel()
	row := func(size, deaths int) *queue.Delivery {
		return &queue.Delivery{Job: &queue.Job{Body: make([]byte, size)}, Deaths: deaths}
	}
	a := newAdmission()
	ctx := t.Context()
	enter := func(d *queue.Delivery) (leave func(), ok bool) { return a.enter(ctx, d, false) }
	first, ok := enter(row(maxAdmitted/2, 0))
	require.True(t, ok)
	second, ok := enter(row(maxAdmitted/2, suspectDeaths-1))
	require.True(t, ok)
	_, ok = enter(row(0, 0))
	require.False(t, ok, "even an empty row takes room")
	second()
	_, ok = enter(row(1, suspectDeaths))
	require.False(t, ok, "it runs alone")
	_, ok = enter(row(2*maxAdmitted, 0))
	require.False(t, ok)
	first()
	alone, ok := enter(row(2*maxAdmitted, 0))
	require.True(t, ok, "a larger row runs alone")
	waited := make(chan bool)
	go func() { _, ok := a.enter(ctx, row(1, 0), true); waited <- ok }()
	alone()
	require.True(t, <-waited)
	go func() { _, ok := a.enter(ctx, row(1, suspectDeaths), true); waited <- ok }()
	a.close()
	require.False(t, <-waited)
	_, ok = enter(row(1, 0))
	require.False(t, ok)
	_, ok = a.enter(ctx, row(1, 0), true)
	require.False(t, ok)
	a = newAdmission()
	_, ok = enter(row(maxAdmitted, 0))
	require.True(t, ok)
	ended, cancel := context.WithCancel(ctx)
	go func() { _, ok := a.enter(ended, row(1, 0), true); waited <- ok }()
	cancel()
	require.False(t, <-waited)
}

// The context has ended an answer if it is shorter than the request allows.
func TestAnswersThatTheContextEnds(t *testing.T) {
	t.Parallel()
	answer := func(reason generation.FinishReason, tokens int) generation.Choice {
		return generation.Choice{FinishReason: reason, Tokens: make([]int32, tokens)}
	}
	for _, c := range []struct {
		most    int
		only    bool
		choices []generation.Choice
		want    bool
	}{
		{5, false, []generation.Choice{answer(generation.FinishLength, 5)}, false}, {5, false, []generation.Choice{answer(generation.FinishLength, 4)}, true},
		{5, false, []generation.Choice{answer(generation.FinishStop, 4)}, false}, {0, false, []generation.Choice{answer(generation.FinishLength, 9)}, true},
		{5, true, []generation.Choice{answer(generation.FinishLength, 0)}, false}, {5, false, []generation.Choice{answer(generation.FinishStop, 1), answer(generation.FinishLength, 2)}, true},
		{5, false, nil, false},
	} {
		got := endedByContext(generation.Request{MaxTokens: c.most, PromptOnly: c.only}, generation.Completion{Choices: c.choices})
		require.Equal(t, c.want, got, "%+v", c)
	}
}

// Prompts run together, and an error names the prompt if there are several.
func TestCompletePrompts(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	broken := errors.New("broken")
	for _, n := range []int{1, 3, 40} {
		done, err := Complete(t.Context(), log, n, func(_ context.Context, i int) (generation.Completion, error) {
			return generation.Completion{Stats: generation.Stats{Steps: i + 1}}, nil
		})
		require.NoError(t, err)
		require.Len(t, done, n)
		for i, c := range done {
			require.Equal(t, i+1, c.Stats.Steps)
		}
		for name, fail := range map[string]func() error{"broken": func() error { return broken }, "internal error: oops": func() error { panic("oops") }} {
			_, err = Complete(t.Context(), log, n, func(_ context.Context, i int) (generation.Completion, error) {
				if i == n-1 {
					return generation.Completion{}, fail()
				}
				return generation.Completion{}, nil
			})
			want := fmt.Sprintf("prompt %d: %s", n-1, name)
			if n == 1 {
				want = name
			}
			require.EqualError(t, err, want)
		}
	}
}

// The client of a row gets each piece of the answer, with what it had before, and learns that the
// row has ended. A row of a file sends nothing.
func TestEventsOfARow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		live *queue.Live
		body string
		want []queue.Event
	}{
		"streamed": {&queue.Live{Channel: "c"}, `{"prompt":"a","stream":true,"n":2}`, []queue.Event{
			{Batch: "b", Piece: generation.Piece{Text: "on", Tokens: []int32{1}}},
			{Batch: "b", Piece: generation.Piece{Choice: 1, Text: "x", Tokens: []int32{2}}},
			{Batch: "b", Before: queue.Progress{Tokens: 1, Text: 2}, Piece: generation.Piece{Text: "e", Tokens: []int32{3, 4}}},
			{Batch: "b", Ended: true},
		}},
		"whole":         {&queue.Live{Channel: "c"}, `{"prompt":"a"}`, []queue.Event{{Batch: "b", Ended: true}}},
		"a row of file": {nil, `{"prompt":"a"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := memqueue.New()
			ready, stop := make(chan struct{}), make(chan struct{})
			var got []queue.Event
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer close(stop)
				_ = q.Listen(ctx, "c", func() { close(ready) }, func(message []byte) {
					e, err := queue.DecodeEvent(message)
					if err == nil {
						got = append(got, e)
					}
				})
			}()
			<-ready
			b := setUp(t, q, func(_ context.Context, r generation.Request) (generation.Completion, error) {
				require.Equal(t, c.live != nil, r.Interactive)
				require.Equal(t, len(c.want) > 1, r.Stream != nil)
				for _, e := range c.want {
					if !e.Ended {
						require.NoError(t, r.Stream(e.Piece))
					}
				}
				return generation.Completion{Choices: []generation.Choice{{Text: "one"}}}, nil
			}, Config{})
			d := &queue.Delivery{Attempt: 1, Recorder: &recorder{}, Job: &queue.Job{
				Batch: "b", Line: 7, Sum: "00c0ffee", CustomID: "x", Endpoint: openai.Completions, Body: []byte(c.body), TimeoutMS: 60_000, MaxAttempts: 3, Live: c.live,
			}}
			require.Equal(t, queue.Done(), b.worker.handle(t.Context(), d))
			cancel()
			<-stop
			require.Equal(t, c.want, got)
		})
	}
}

// saver is a recorder that keeps checkpoints, or refuses them.
type saver struct {
	recorder
	saved [][]byte
	err   error
}

func (s *saver) Save(_ context.Context, checkpoint []byte) error {
	if s.err == nil {
		s.saved = append(s.saved, checkpoint)
	}
	return s.err
}

// Progress is stored when an eighth of it is new, up to a total size, and not before the model's
// file is hashed.
func TestProgressThatIsStored(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	hash := "aa"
	m := &model{origin: queue.Origin{Arithmetic: "1/cpu/f16"}}
	c := newCheckpointer(m, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s := new(saver)
	ctx, p := c.track(t.Context(), &queue.Delivery{Job: &queue.Job{Batch: "b", Line: 7}, Recorder: s})
	generate := func(prompt, tokens int) {
		p.reporting(prompt).To(generation.Progress{Choices: [][]int32{make([]int32, tokens)}})
	}
	stored := func() int { c.save(t.Context()); return len(s.saved) }
	generate(1, 80)
	require.Zero(t, stored(), "the model file is not hashed yet")
	m.hash.Store(&hash)
	require.Equal(t, 1, stored())
	point, err := queue.DecodeCheckpoint(s.saved[0])
	require.NoError(t, err)
	require.Equal(t, 80, point.Tokens())
	require.Len(t, point.Prompts, 2)
	require.Equal(t, queue.Pin("aa", "", "1/cpu/f16"), point.Fingerprint)
	require.Equal(t, 1, stored(), "nothing is new")
	generate(0, 10)
	require.Equal(t, 1, stored(), "10 of 90 are less than an eighth")
	generate(0, 11)
	require.Equal(t, 2, stored(), "11 of 91 are an eighth, rounded down")
	s.err = errors.New("full")
	generate(0, 100)
	require.Equal(t, 2, stored())
	require.Contains(t, log.String(), "could not store the progress of a row")
	s.err = nil
	require.Equal(t, 3, stored(), "it is tried again")
	require.NoError(t, ctx.Err())
	s.err = fmt.Errorf("store: %w", queue.ErrSuperseded)
	generate(0, 200)
	c.save(t.Context())
	require.ErrorIs(t, context.Cause(ctx), queue.ErrSuperseded)
	require.Len(t, c.tracked(), 1)
	c.untrack(p)
	require.Empty(t, c.tracked())

	large := make([]*saver, 6)
	for i := range large {
		large[i] = new(saver)
		_, p = c.track(t.Context(), &queue.Delivery{Job: &queue.Job{Batch: "b", Line: i}, Recorder: large[i]})
		generate(0, queue.MaxCheckpoint-1000)
	}
	count := func() (n int) {
		for _, s := range large {
			n += len(s.saved)
		}
		return n
	}
	c.save(t.Context())
	require.Equal(t, maxCheckpointBytes/queue.MaxCheckpoint, count(), "the others wait for the next interval")
	c.save(t.Context())
	require.Equal(t, 6, count())
}

// A checkpoint that is damaged or of another model is not used.
func TestCheckpointsThatAreUsed(t *testing.T) {
	t.Parallel()
	m := &model{origin: queue.Origin{Arithmetic: "1/cpu/f16"}, sha256: func(context.Context) (string, error) { return "aa", nil }}
	c := newCheckpointer(m, slog.New(slog.DiscardHandler))
	point := queue.Checkpoint{Fingerprint: queue.Pin("aa", "", "1/cpu/f16"), Prompts: []generation.Progress{{Choices: [][]int32{{5}}}}}
	read := func(data []byte) *queue.Checkpoint {
		return c.read(t.Context(), &queue.Delivery{Checkpoint: data}, c.log)
	}
	require.Nil(t, read(nil))
	require.Equal(t, &point, read(point.Encode()))
	require.Nil(t, read([]byte("x")))
	other := point
	other.Fingerprint = queue.Pin("bb", "", "1/cpu/f16")
	require.Nil(t, read(other.Encode()))
	m.sha256 = func(context.Context) (string, error) { return "aa", errors.New("lost") }
	require.Nil(t, read(point.Encode()))
}

// The engine is stuck if it has had work for more than two minutes without finishing a step.
func TestAStuckEngine(t *testing.T) {
	t.Parallel()
	var w watchdog
	now := time.Now()
	check := func(after time.Duration, running, waiting int, steps uint64) error {
		return w.check(engine.Snapshot{Running: running, Waiting: waiting, Steps: steps}, now.Add(after))
	}
	require.NoError(t, check(0, 1, 2, 7))
	require.NoError(t, check(stuckAfter, 1, 2, 7))
	require.EqualError(t, check(stuckAfter+1, 1, 2, 7), "the engine has 3 sequences and has finished no step for 2m0s")
	require.NoError(t, check(stuckAfter+2, 0, 1, 8), "a step has ended")
	require.NoError(t, check(2*stuckAfter+2, 0, 1, 8))
	require.Error(t, check(2*stuckAfter+3, 0, 1, 8))
	require.NoError(t, check(2*stuckAfter+4, 0, 0, 8), "there is no work")
	require.NoError(t, check(9*stuckAfter, 1, 0, 8))
}

// The defaults of a worker follow from its engine and its machine.
func TestDefaultsOfAWorker(t *testing.T) {
	t.Parallel()
	eng := microLlama(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	w, err := newWorker(eng, memqueue.New(), Config{}, newRegistry(), newAdmission())
	require.NoError(t, err)
	require.Equal(t, []int{eng.Info().MaxSequences, eng.Info().MaxSequences}, []int{w.config.Concurrency, w.config.Prefetch})
	require.Equal(t, []any{queue.DefaultAlias, DefaultShutdownTimeout}, []any{w.config.Alias, w.config.ShutdownTimeout})
	require.Equal(t, fmt.Sprintf("%s:%d", host, os.Getpid()), w.model.origin.Worker)
	require.Equal(t, strings.TrimSuffix(eng.Info().FileName(), ".gguf"), w.fileName)
	w, err = newWorker(eng, memqueue.New(), Config{Concurrency: 3, Prefetch: 2, Name: "n", Alias: "a"}, newRegistry(), newAdmission())
	require.NoError(t, err)
	require.Equal(t, []int{3, 2}, []int{w.config.Concurrency, w.config.Prefetch})
	require.Equal(t, "n", w.model.origin.Worker)
}
