package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// For each family with recurrent states, convolutions or layers of different sizes, a worker stops
// in the middle of a row. Another worker, whose engine has other sizes and drafts, continues from
// the tokens in Redis. The answer is that of the row without an interruption.
func TestRowsOfFamiliesGoOnElsewhere(t *testing.T) {
	t.Parallel()
	const tokens, droppedAt = 80, 50 // in both choices together: 2*tokens
	for _, f := range modeltest.Archived(t) {
		t.Run(f.Name, func(t *testing.T) {
			path := f.Files[0]
			prompt := make([]int32, 131)
			for i := range prompt {
				prompt[i] = int32(7 + i*i%311)
			}
			req := generation.Request{
				Tokens: prompt, N: 2, MaxTokens: tokens, IgnoreEOS: true, Sampling: generation.Sampling{Temperature: 0.8, Seed: 7},
			}
			ids, err := json.Marshal(prompt)
			require.NoError(t, err)
			row := fmt.Sprintf("{\"custom_id\":\"row\",\"prompt\":%s,\"n\":2,\"max_tokens\":%d,\"temperature\":0.8,\"seed\":7,"+
				"\"ignore_eos\":true,\"return_token_ids\":true}\n", ids, tokens)
			b, _ := onRedis(t, row)
			uncut := openSized(t, path, engine.Options{Context: 256, MaxSequences: 3, Draft: engine.DraftOff})
			want, err := uncut.Generate(t.Context(), req)
			require.NoError(t, err)

			first, err := New(uncut, b.queue, Config{Concurrency: 1, ShutdownTimeout: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			first.checkpoints.interval = time.Millisecond
			dropped := make(chan struct{})
			drop := sync.OnceFunc(func() { close(dropped) })
			next := first.generate
			first.generate = func(ctx context.Context, r generation.Request) (generation.Completion, error) {
				report := r.Progress.To
				r.Progress.To = func(now generation.Progress) {
					if report(now); now.Tokens() >= droppedAt {
						drop()
						<-ctx.Done() // no further token
					}
				}
				return next(ctx, r)
			}
			stop := (&bench{queue: b.queue, worker: first}).start(t)
			<-dropped
			require.Eventually(t, func() bool {
				for _, p := range first.checkpoints.tracked() {
					p.mu.Lock()
					stored := p.stored
					p.mu.Unlock()
					return stored >= droppedAt-droppedAt/checkpointGrowth
				}
				return false
			}, time.Minute, time.Millisecond)
			stop()

			opts := engine.Options{Context: 300, MaxSequences: 5, PageSize: 8, PrefillChunk: 40, Draft: engine.DraftNGram, DraftTokens: 3}
			switch {
			case f.MTP != nil:
				opts.Draft = engine.DraftMTP
			case f.Assistant != nil:
				opts.Draft, opts.DraftModel = engine.DraftModel, f.Assistant.File
			}
			b.worker, err = New(openSized(t, path, opts), b.queue, Config{Concurrency: 2, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			stop = b.start(t)
			got := b.results(t)["row"]
			stop()
			require.Nil(t, got.Error)
			require.GreaterOrEqual(t, got.Stats.ResumedTokens, droppedAt-droppedAt/checkpointGrowth)
			require.Less(t, got.Stats.ResumedTokens, 2*tokens)
			for i, choice := range want.Choices {
				require.Equal(t, choice.Tokens, got.Response.Body.Choices[i].TokenIDs)
				require.Equal(t, choice.Text, got.Response.Body.Choices[i].Text)
			}
		})
	}
}
