package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTokenAxisEndsAtTheLongestAnswer: the axis of few different lengths has no empty part.
func TestTokenAxisEndsAtTheLongestAnswer(t *testing.T) {
	t.Parallel()
	drawn, err := distribution([]float64{1, 2, 2, 3, 8}, nil, "tokens", "lengths")
	require.NoError(t, err)
	require.Contains(t, string(drawn), ">8<")
	require.NotRegexp(t, `text-anchor="middle"[^>]*>[19]\d?<`, string(drawn))
}
