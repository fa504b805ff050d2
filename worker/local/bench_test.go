package local_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/worker"
	"github.com/ingot-run/ingot/worker/local"
)

// instant is an engine that returns answers at once, so that a benchmark measures everything except
// the engine.
type instant struct{}

func (instant) Info() engine.Info {
	return engine.Info{Model: "instant", Backend: "none", Fit: engine.Fit{Rows: 512 << 20}}
}
func (instant) Snapshot() engine.Snapshot { return engine.Snapshot{} }

func (instant) SHA256(context.Context) (string, error) { return strings.Repeat("0", 64), nil }

func (instant) Generate(_ context.Context, r generation.Request) (generation.Completion, error) {
	return generation.Completion{
		Choices: []generation.Choice{{Text: "An answer of a few words.", FinishReason: generation.FinishStop}},
		Stats:   generation.Stats{PromptTokens: 20, CompletionTokens: 6, Steps: 7, BatchMean: 1},
	}, nil
}

// chats returns a file of n short chats.
func chats(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"custom_id":"row-%d","method":"POST","url":"/v1/chat/completions","body":{"messages":[`+
			`{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"What is the number after %d?"}],`+
			`"max_tokens":48,"temperature":0,"ignore_eos":true}}`+"\n", i+1, i)
	}
	return text.String()
}

func benchmarkRun(b *testing.B, eng worker.Engine, n int) {
	b.Helper()
	text := chats(n)
	for b.Loop() {
		out, err := rows.OpenOutput(filepath.Join(b.TempDir(), "out.jsonl"), local.Batch)
		require.NoError(b, err)
		sum, err := local.Run(b.Context(), eng, strings.NewReader(text), out, local.Options{Concurrency: 32, Logger: quiet})
		require.NoError(b, err)
		require.NoError(b, out.Close())
		require.Equal(b, n, sum.Done)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkRun answers a file of chats, with an engine that returns at once and with a tiny model.
// A CPU profile of the latter shows how much time is spent outside the engine.
func BenchmarkRun(b *testing.B) {
	b.Run("instant", func(b *testing.B) { benchmarkRun(b, instant{}, 20_000) })
	b.Run("tiny", func(b *testing.B) {
		backend, err := cpu.New(2)
		require.NoError(b, err)
		eng, err := engine.Open(filepath.Join("..", "..", "models", "tiny-llama.q4_0.gguf"), backend, engine.Options{})
		require.NoError(b, err)
		defer func() { require.NoError(b, eng.Close()) }()
		benchmarkRun(b, eng, 500)
	})
}
