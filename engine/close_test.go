package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

// atStep returns a function for Options.Trace that calls do once, in the given step.
func atStep(step int, do func()) func(compute.Checkpoint) {
	steps := 0
	return func(c compute.Checkpoint) {
		if c.Layer == -1 && c.Row == 0 {
			if steps++; steps == step {
				do()
			}
		}
	}
}

func TestCancellationFreesPages(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]int{"in the prompt": 2, "in the answer": 9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			e := open(t, microGLM, engine.Options{PrefillChunk: 10, Trace: atStep(step, cancel)})
			_, err := e.Generate(ctx, generation.Request{Tokens: randomTokens(1, 30), N: 3, IgnoreEOS: true})
			require.ErrorIs(t, err, context.Canceled)
			waitFor(t, func() bool { s := e.Snapshot(); return s.Running+s.Waiting+s.PagesUsed == 0 })
			require.LessOrEqual(t, e.Snapshot().Steps, uint64(step), "no further step computes the request")
			require.Len(t, generate(t, e, generation.Request{Tokens: randomTokens(1, 30), MaxTokens: 5, IgnoreEOS: true}).Choices[0].Tokens, 5)
		})
	}
}

func TestCancellationWhileWaiting(t *testing.T) {
	t.Parallel()
	g := newGate()
	e := open(t, microLlama, engine.Options{MaxSequences: 1, Trace: g.trace})
	defer g.open()
	var first sync.WaitGroup
	var firstErr error
	first.Go(func() {
		_, firstErr = e.Generate(t.Context(), generation.Request{Tokens: randomTokens(1, 5), MaxTokens: 5, IgnoreEOS: true})
	})
	waitFor(t, func() bool { return e.Snapshot().Running == 1 })

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	var second sync.WaitGroup
	second.Go(func() {
		_, err = e.Generate(ctx, generation.Request{Tokens: randomTokens(1, 5), MaxTokens: 5})
	})
	waitFor(t, func() bool { return e.Snapshot().Waiting == 1 })
	cancel()
	second.Wait()
	require.ErrorIs(t, err, context.Canceled, "a caller does not wait for a step that hangs")
	require.Equal(t, 1, e.Snapshot().Waiting)
	g.open()
	first.Wait()
	require.NoError(t, firstErr)
	waitFor(t, func() bool { s := e.Snapshot(); return s.Running+s.Waiting+s.PagesUsed == 0 })
	require.Equal(t, uint64(5), e.Snapshot().GeneratedTokens, "the cancelled request was never started")

	_, err = e.Generate(ctx, generation.Request{})
	require.ErrorIs(t, err, context.Canceled, "a cancelled request is refused before its prompt is checked")
}

func TestCloseFailsWhatIsNotDone(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	g := newGate()
	defer g.open()
	e, err := engine.Open(microGLM, backend(t), engine.Options{MaxSequences: 2, Trace: g.trace})
	require.NoError(t, err)
	var calls sync.WaitGroup
	var closed atomic.Int32
	for range 5 {
		calls.Go(func() {
			if _, err := e.Generate(t.Context(), generation.Request{Tokens: randomTokens(1, 5), IgnoreEOS: true}); errors.Is(err, generation.ErrClosed) {
				closed.Add(1)
			}
		})
	}
	waitFor(t, func() bool { s := e.Snapshot(); return s.Running+s.Waiting == 5 })
	var closeErr error
	calls.Go(func() { closeErr = e.Close() })
	waitFor(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := e.Generate(ctx, generation.Request{Tokens: randomTokens(1, 5), MaxTokens: 1})
		return errors.Is(err, generation.ErrClosed)
	})
	g.open()
	calls.Wait()
	require.NoError(t, closeErr)
	require.Equal(t, int32(5), closed.Load())
	require.NoError(t, e.Close(), "a second Close does nothing")
	require.Zero(t, e.Snapshot().PagesUsed)
}

func TestInfo(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 100, MaxSequences: 3})
	info := e.Info()
	require.Equal(t, "micro-llama", info.Model)
	require.Equal(t, "llama", info.Architecture)
	require.Equal(t, microLlama, info.Path)
	require.Equal(t, "cpu", info.Backend)
	require.NotEmpty(t, info.Device)
	require.Equal(t, 100, info.Context)
	require.Equal(t, 2048, info.Vocab)
	require.Equal(t, 3, info.MaxSequences)

	data, err := os.ReadFile(microLlama)
	require.NoError(t, err)
	require.Equal(t, int64(len(data)), info.Bytes)
	want := sha256.Sum256(data)
	got, err := e.SHA256(t.Context())
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(want[:]), got)
}

// closes counts how often a backend is closed.
type closes struct {
	compute.Backend
	n int
}

func (c *closes) Close() error {
	c.n++
	return c.Backend.Close()
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	notGGUF := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(notGGUF, []byte("not a model, but long enough to be parsed"), 0o600))
	gpt2 := rewrite(t, microLlama, func(m *gguf.Metadata) *gguf.Metadata {
		m.Set("general.architecture", "gpt2")
		return m
	})
	unknown := rewrite(t, microLlama, func(m *gguf.Metadata) *gguf.Metadata {
		m.Set("tokenizer.ggml.pre", "klingon")
		return m
	})
	for name, c := range map[string]struct {
		path string
		opts engine.Options
		want string
	}{
		"no such file":         {filepath.Join(t.TempDir(), "absent.gguf"), engine.Options{}, "absent.gguf"},
		"not a model":          {notGGUF, engine.Options{}, "notes.txt"},
		"another family":       {gpt2, engine.Options{}, model.ErrUnsupported.Error()},
		"unknown tokenizer":    {unknown, engine.Options{}, "klingon"},
		"negative sequences":   {microGLM, engine.Options{MaxSequences: -1}, "the maximum number of sequences is -1"},
		"negative memory":      {microGLM, engine.Options{Memory: -1}, "the memory is -1 bytes"},
		"step too small":       {microGLM, engine.Options{MaxSequences: 8, StepTokens: 7}, "the maximum number of tokens of a step is 7, but must be at least the maximum number of sequences, which is 8"},
		"context of the model": {microGLM, engine.Options{Context: 1025}, "more than the 1024 positions"},
		"context of the memory": {microGLM, engine.Options{Context: 1024, MaxSequences: 32, Memory: memoryFor(t, microGLM, engine.Options{Context: 1024, MaxSequences: 32}, 300<<10)},
			"the cache of a context of 1024 needs 768.0 KiB"},
		"no page":             {microGLM, engine.Options{MaxSequences: 32, Memory: memoryFor(t, microGLM, engine.Options{Context: 16, MaxSequences: 32}, 100)}, "the cache needs at least 12.0 KiB"},
		"no room for weights": {microGLM, engine.Options{Memory: 1000}, "together they may take only 1000 bytes"},
		"unknown KV type":     {microGLM, engine.Options{KV: gguf.TypeQ6K}, "KV cache type Q6_K is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			be := &closes{Backend: backend(t)}
			_, err := engine.Open(c.path, be, c.opts)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, 1, be.n, "the backend is closed")
		})
	}
}

// memoryFor returns the value of Options.Memory with which an engine on the CPU has a cache of the
// given number of bytes, at most 3 MiB. opts must set a context and a number of sequences. If the
// model has layers with a window, its other layers must form one group.
func memoryFor(t testing.TB, path string, opts engine.Options, cache int64) int64 {
	t.Helper()
	return memoryOn(t, backend(t), path, opts, cache)
}

func memoryOn(t testing.TB, be compute.Backend, path string, opts engine.Options, cache int64) int64 {
	t.Helper()
	require.Positive(t, opts.MaxSequences, "the automatic number depends on the memory")
	opts.Memory = 1 << 40
	fit, err := engine.CheckFit(path, be, opts)
	require.NoError(t, err)
	require.NoError(t, be.Close())
	perSequence := int64(4) // bytes per token: the token, and tables of n-grams
	if opts.Draft == "" || opts.Draft == engine.DraftAuto || opts.Draft == engine.DraftNGram {
		perSequence += 48
	}
	const minRows = 4 << 20
	return fit.Weights + fit.Steps + fit.States + minRows + cache + perSequence*(cache/(fit.PerToken-fit.Windowed)-int64(fit.Tokens))
}

func TestTheContextFitsTheMemory(t *testing.T) {
	t.Parallel()
	// micro-glm stores 32+16 values in each of its 4 layers: 768 bytes per position.
	for name, c := range map[string]struct {
		opts           engine.Options
		context, pages int
	}{
		"the model's whole context": {engine.Options{MaxSequences: 2}, 1024, 128},
		"as much as fits":           {engine.Options{MaxSequences: 32, Memory: memoryFor(t, microGLM, engine.Options{Context: 96, MaxSequences: 32}, 768*100)}, 96, 6},
		"less than fits":            {engine.Options{Context: 50, MaxSequences: 3, Memory: 1 << 30}, 50, 12},
		"many sequences":            {engine.Options{Context: 16, MaxSequences: 600}, 16, 600},
		"another page size":         {engine.Options{Context: 50, MaxSequences: 3, PageSize: 50}, 50, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, microGLM, c.opts)
			require.Equal(t, c.context, e.Info().Context)
			require.Equal(t, c.pages, e.Snapshot().PagesTotal)
		})
	}
}
