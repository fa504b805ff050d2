package local_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/worker/local"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	s := local.Summary{Progress: local.Progress{
		Kept: 4, Done: 9, Failed: 1, PromptTokens: 500, CompletionTokens: 1000, Elapsed: 4 * time.Second,
	}, KeptFailed: 2}
	require.Equal(t, "10 rows done (1 failed), 4 kept (2 failed), 500 prompt tokens, 1000 generated tokens in 4s: "+
		"2.5 rows/s, 250.0 tokens/s", s.String())
}
