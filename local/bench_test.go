package local_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/local"
	"github.com/ingot-run/ingot/rows"
)

// instant is an engine whose answers cost nothing, so that what is measured is everything else of a run.
type instant struct{}

func (instant) Info() engine.Info         { return engine.Info{Model: "instant", Backend: "none"} }
func (instant) Snapshot() engine.Snapshot { return engine.Snapshot{} }

func (instant) SHA256(context.Context) (string, error) { return strings.Repeat("0", 64), nil }

func (instant) Generate(_ context.Context, r generation.Request) (generation.Completion, error) {
	return generation.Completion{
		Choices: []generation.Choice{{Text: "An answer of a few words.", FinishReason: generation.FinishStop}},
		Stats:   generation.Stats{PromptTokens: 20, CompletionTokens: 6, Steps: 7, BatchMean: 1},
	}, nil
}

// BenchmarkRun answers files of chats whose answers cost nothing, from file to file.
func BenchmarkRun(b *testing.B) {
	const n = 20_000
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"custom_id":"row-%d","method":"POST","url":"/v1/chat/completions","body":{"model":"instant","messages":[`+
			`{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"What is the number after %d?"}],`+
			`"max_tokens":64,"temperature":0}}`+"\n", i+1, i)
	}
	for b.Loop() {
		out, err := rows.OpenOutput(filepath.Join(b.TempDir(), "out.jsonl"), local.Batch)
		require.NoError(b, err)
		sum, err := local.Run(b.Context(), instant{}, strings.NewReader(text.String()), out, local.Options{Concurrency: 32, Logger: quiet})
		require.NoError(b, err)
		require.NoError(b, out.Close())
		require.Equal(b, n, sum.Done)
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
