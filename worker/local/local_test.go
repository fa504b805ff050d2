package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/worker/local"
)

func openMicro(t testing.TB) *engine.Engine {
	t.Helper()
	backend, err := cpu.New(1)
	require.NoError(t, err)
	eng, err := engine.Open(filepath.Join("..", "..", "engine", "model", "testdata", "micro-llama.gguf"), backend, engine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close()) })
	return eng
}

var quiet = slog.New(slog.DiscardHandler)

// fileOf returns a file of n rows with one prompt token each.
func fileOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"custom_id\":\"row-%d\",\"prompt\":[%d,%d],\"max_tokens\":1}\n", i+1, 300+i%1000, 400+i/1000)
	}
	return b.String()
}

// stripped returns results without times and speeds, which differ between runs.
func stripped(t testing.TB, text string) map[string]string {
	t.Helper()
	lines := map[string]string{}
	for l := range strings.Lines(text) {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(l), &line), l)
		delete(line, "stats")
		if r, ok := line["response"].(map[string]any); ok {
			delete(r["body"].(map[string]any), "created")
		}
		rest, err := json.Marshal(line)
		require.NoError(t, err)
		id := line["id"].(string)
		require.NotContains(t, lines, id)
		lines[id] = string(rest)
	}
	return lines
}

func run(t testing.TB, eng *engine.Engine, in io.Reader, path string, o local.Options) (local.Summary, error) {
	t.Helper()
	out, err := rows.OpenOutput(path, local.Batch)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	if o.Concurrency == 0 {
		o.Concurrency = 8
	}
	o.Logger = quiet
	return local.Run(t.Context(), eng, in, out, o)
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// crowded is an engine whose requests end when there are as many as full.
type crowded struct {
	*engine.Engine
	requests atomic.Int64
	full     int64
	reached  chan struct{}
}

func (c *crowded) Generate(ctx context.Context, r generation.Request) (generation.Completion, error) {
	if c.requests.Add(1) == c.full {
		close(c.reached)
	}
	select {
	case <-c.reached:
		return c.Engine.Generate(ctx, r)
	case <-ctx.Done():
		return generation.Completion{}, ctx.Err()
	}
}

// TestRowsWaitInTheEngine checks that a row is in the engine when another one ends, so that no step
// has a row less meanwhile.
func TestRowsWaitInTheEngine(t *testing.T) {
	t.Parallel()
	eng := &crowded{Engine: openMicro(t), full: 8, reached: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sum, err := local.Run(ctx, eng, strings.NewReader(fileOf(50)), rows.NewOutput(io.Discard, local.Batch), local.Options{Concurrency: 4, Logger: quiet})
	require.NoError(t, err)
	require.Equal(t, 50, sum.Done)
}

func TestRunAnswersAFile(t *testing.T) {
	eng := openMicro(t)
	input := fileOf(12) + "\nnonsense\n{\"custom_id\":\"row-3\",\"prompt\":\"again\"}\n{\"prompt\":[9999999]}\n"
	path := filepath.Join(t.TempDir(), "out.jsonl")
	var last local.Progress
	sum, err := run(t, eng, strings.NewReader(input), path, local.Options{Version: "v1", Progress: func(p local.Progress) { last = p }})
	require.NoError(t, err)
	require.Equal(t, []int{15, 0, 12, 3, 24, 12}, []int{sum.Total, sum.Kept, sum.Done, sum.Failed, sum.PromptTokens, sum.CompletionTokens})
	require.Equal(t, []int{15, 0, 12, 3, 24, 12}, []int{last.Total, last.Kept, last.Done, last.Failed, last.PromptTokens, last.CompletionTokens})
	require.Positive(t, sum.Elapsed)
	t.Logf("15 rows in %v", sum.Elapsed)
	first := stripped(t, read(t, path))
	require.Len(t, first, 15)

	// A second run has nothing to answer. A run with another output gets the same tokens.
	sum, err = run(t, eng, strings.NewReader(input), path, local.Options{Version: "v1"})
	require.NoError(t, err)
	require.Equal(t, []int{15, 15, 0, 0, 3}, []int{sum.Total, sum.Kept, sum.Done, sum.Failed, sum.KeptFailed})
	t.Logf("nothing to do in %v", sum.Elapsed)
	elsewhere := filepath.Join(t.TempDir(), "out.jsonl")
	_, err = run(t, eng, strings.NewReader(input), elsewhere, local.Options{Version: "v1", Concurrency: 1})
	require.NoError(t, err)
	require.Equal(t, first, stripped(t, read(t, elsewhere)))
}

func TestRunOfNothing(t *testing.T) {
	sum, err := run(t, openMicro(t), strings.NewReader(""), filepath.Join(t.TempDir(), "out.jsonl"), local.Options{})
	require.NoError(t, err)
	require.Zero(t, sum.Total+sum.Done+sum.Failed+sum.Kept)
}

func TestRunFromAndToPipes(t *testing.T) {
	eng := openMicro(t)
	in, feed := io.Pipe()
	go func() {
		_, err := io.WriteString(feed, fileOf(20))
		feed.CloseWithError(err)
	}()
	var written bytes.Buffer
	out := rows.NewOutput(&written, local.Batch)
	sum, err := local.Run(t.Context(), eng, in, out, local.Options{Concurrency: 4, Logger: quiet})
	require.NoError(t, err)
	require.Equal(t, []int{0, 20}, []int{sum.Total, sum.Done})
	require.Len(t, stripped(t, written.String()), 20)
}

// Results are written before all rows are read.
func TestRowsAppearAsTheyFinish(t *testing.T) {
	eng := openMicro(t)
	in, feed := io.Pipe()
	progress := make(chan int, 1000)
	lines := strings.SplitAfter(fileOf(3), "\n")
	go func() {
		for i := range 3 {
			if _, err := io.WriteString(feed, lines[i]); err != nil {
				return
			}
			for done := range progress {
				if done == i+1 {
					break
				}
			}
		}
		feed.Close()
	}()
	sum, err := local.Run(t.Context(), eng, in, rows.NewOutput(&bytes.Buffer{}, local.Batch), local.Options{
		Concurrency: 2, Logger: quiet, Progress: func(p local.Progress) { progress <- p.Done },
	})
	require.NoError(t, err)
	require.Equal(t, 3, sum.Done)
}

// watched is a file that counts the rows that were read from it and whose results are not written
// yet.
type watched struct {
	text    string
	row     int // size of a row in bytes
	read    int
	written func() int
	maxRead int           // largest number of rows that were read and not written yet
	enough  int           // value that maxRead has to reach
	is      chan struct{} // closed when maxRead has reached enough
}

func (w *watched) Read(p []byte) (int, error) {
	before := w.maxRead
	w.maxRead = max(w.maxRead, w.read/w.row-w.written())
	if before < w.enough && w.maxRead >= w.enough {
		close(w.is)
	}
	if w.read == len(w.text) {
		return 0, io.EOF
	}
	n := copy(p, w.text[w.read:])
	w.read += n
	return n, nil
}

// A run holds only a window of rows in memory, however long the file is. Here it reads the whole
// window before it writes the first result.
func TestRunHoldsOnlyAWindow(t *testing.T) {
	eng := openMicro(t)
	const n, size, window, buffered = 300, 2048, 64, 32
	var text strings.Builder
	for i := range n {
		row := fmt.Sprintf("{\"prompt\":[%d,%d],\"max_tokens\":1,\"user\":\"", 300+i%1000, 400+i/1000)
		fmt.Fprintf(&text, "%s%s\"}\n", row, strings.Repeat("x", size-len(row)-3))
	}
	require.Equal(t, n*size, text.Len())
	out := rows.NewOutput(io.Discard, local.Batch)
	in := &watched{
		text: text.String(), row: size, enough: window, is: make(chan struct{}),
		written: func() int { held, _ := out.Counts(); return held },
	}
	sum, err := local.Run(t.Context(), eng, in, out, local.Options{
		Concurrency: 16, Logger: quiet, Progress: func(local.Progress) { <-in.is }, // before the first row is written
	})
	require.NoError(t, err)
	require.Equal(t, n, sum.Done)
	require.LessOrEqual(t, in.maxRead, window+buffered+1)
	t.Logf("%d rows in %v, at most %d read ahead", n, sum.Elapsed, in.maxRead)
}

func TestRunContinuesAnInterruptedRun(t *testing.T) {
	eng := openMicro(t)
	// Until a run notices that it is cancelled, it answers at most a window of rows and a page.
	// Three runs must not answer all rows, however loaded the machine is.
	const n = 600
	input := fileOf(n)
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.jsonl")
	_, err := run(t, eng, strings.NewReader(input), whole, local.Options{})
	require.NoError(t, err)

	path := filepath.Join(dir, "out.jsonl")
	for range 3 {
		out, err := rows.OpenOutput(path, local.Batch)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := 0
		sum, err := local.Run(ctx, eng, strings.NewReader(input), out, local.Options{
			Concurrency: 8, Logger: quiet,
			Progress: func(p local.Progress) {
				if done = p.Done; done > 30 {
					cancel()
				}
			},
		})
		require.ErrorIs(t, err, context.Canceled)
		require.GreaterOrEqual(t, sum.Done, done)
		require.Less(t, sum.Kept+sum.Done, n)
		cancel()
		require.NoError(t, out.Close())
		text := read(t, path) // a killed run may leave such a file
		require.NoError(t, os.WriteFile(path, []byte(text[:len(text)-20]), 0o600))
	}
	held := strings.Count(read(t, path), "\n")
	sum, err := run(t, eng, strings.NewReader(input), path, local.Options{})
	require.NoError(t, err)
	require.Equal(t, []int{n, held, n - held}, []int{sum.Total, sum.Kept, sum.Done})
	require.Equal(t, stripped(t, read(t, whole)), stripped(t, read(t, path)))
}

func TestRunNoticesAnotherInput(t *testing.T) {
	eng := openMicro(t)
	path := filepath.Join(t.TempDir(), "out.jsonl")
	_, err := run(t, eng, strings.NewReader(fileOf(5)), path, local.Options{})
	require.NoError(t, err)
	before := read(t, path)
	_, err = run(t, eng, strings.NewReader(strings.ReplaceAll(fileOf(9), "row-4", "row-x")), path, local.Options{})
	require.ErrorIs(t, err, rows.ErrOtherFile)
	require.ErrorContains(t, err, "line 4")
	require.Equal(t, before, read(t, path))
	sum, err := run(t, eng, strings.NewReader(fileOf(9)), path, local.Options{})
	require.NoError(t, err, "a file that has grown is the same file")
	require.Equal(t, []int{5, 4}, []int{sum.Kept, sum.Done})
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error)  { return 0, b.err }
func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestRunReturnsFileErrors(t *testing.T) {
	eng := openMicro(t)
	lost := errors.New("disk lost")
	_, err := run(t, eng, io.MultiReader(strings.NewReader(fileOf(3)), broken{lost}), filepath.Join(t.TempDir(), "out.jsonl"), local.Options{})
	require.ErrorIs(t, err, lost)
	_, err = local.Run(t.Context(), eng, strings.NewReader(fileOf(3)), rows.NewOutput(broken{lost}, local.Batch), local.Options{Concurrency: 1, Logger: quiet})
	require.ErrorIs(t, err, lost)
	_, err = local.Run(t.Context(), eng, strings.NewReader(fileOf(3)), rows.NewOutput(io.Discard, local.Batch), local.Options{Concurrency: -1, Logger: quiet})
	require.ErrorContains(t, err, "concurrency")
}

func TestRunLeavesNothingBehind(t *testing.T) {
	eng := openMicro(t)
	ignore := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := local.Run(ctx, eng, strings.NewReader(fileOf(50)), rows.NewOutput(io.Discard, local.Batch), local.Options{Concurrency: 4, Logger: quiet})
	require.NoError(t, err)
	stopped, stop := context.WithCancel(t.Context())
	_, err = local.Run(stopped, eng, strings.NewReader(fileOf(5000)), rows.NewOutput(io.Discard, local.Batch), local.Options{
		Concurrency: 4, Logger: quiet, Progress: func(p local.Progress) {
			if p.Done > 10 {
				stop()
			}
		},
	})
	require.ErrorIs(t, err, context.Canceled)
	stop()
	cancel()
	goleak.VerifyNone(t, ignore)
}

// Rows for other models are neither answered nor counted.
func TestRunLeavesRowsOfOtherModelsOut(t *testing.T) {
	eng := openMicro(t)
	const file = `{"prompt":[300],"max_tokens":1}
{"prompt":[301],"max_tokens":1,"model":"mine"}
{"prompt":[302],"max_tokens":1,"model":"other"}
{"prompt":[303],"max_tokens":1,"model":"nobody's"}
`
	path := filepath.Join(t.TempDir(), "out.jsonl")
	var last local.Progress
	sum, err := run(t, eng, strings.NewReader(file), path, local.Options{
		Models: []string{"mine"}, Others: []string{"other"}, Progress: func(p local.Progress) { last = p },
	})
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{sum.Done, sum.Failed})
	require.Equal(t, 3, last.Total)
	require.Len(t, stripped(t, read(t, path)), 3)
	require.NotContains(t, read(t, path), "local-3-")
	require.Contains(t, read(t, path), `"model_not_found"`)
}
