package worker

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// A result that is too large for Redis becomes an error of its row at the first attempt. A smaller
// result is recorded.
func TestAResultThatIsTooLargeForRedis(t *testing.T) {
	for setting, value := range map[string]string{"proto-max-bulk-len": "2097152", "maxmemory": "16777216"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t)
			require.NoError(t, r.Client.ConfigSet(t.Context(), setting, value).Err())
			sizes := map[string]int{"small": 1 << 20, "large": 9 << 20}
			generate := func(_ context.Context, g generation.Request) (generation.Completion, error) {
				return generation.Completion{Choices: []generation.Choice{{Text: strings.Repeat("x", sizes[g.Text]), FinishReason: generation.FinishStop}}}, nil
			}
			b := setUp(t, redisqueue.New(r.Client), generate, Config{Concurrency: 1})
			b.enqueue(t, `{"prompt":"small"}`+"\n"+`{"prompt":"large"}`, enqueue.Options{MaxAttempts: 3})
			stop := b.start(t)
			rows := b.results(t)
			require.Nil(t, rows["line-1"].Error)
			require.Len(t, rows["line-1"].Response.Body.Choices[0].Text, sizes["small"])
			require.Equal(t, openai.CodeTooLarge, rows["line-2"].Error.Code)
			require.Contains(t, rows["line-2"].Error.Message, "line 2: the result has 9")
			require.Equal(t, 1, rows["line-2"].Stats.Attempts)
			stop()
			b.requireEmptyQueue(t)
		})
	}
}
