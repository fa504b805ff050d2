package statistics

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Verdicts of gates are stored and printed with these names.
func TestNamesOfFields(t *testing.T) {
	t.Parallel()
	c := Comparison{
		Difference: Difference{N: 1, Clusters: 2, Mean: 3, SE: 4, Interval: Interval{Low: 5, High: 6}},
		Lost:       7, Won: 8, Binary: true, P: 9, Worse: 10, Smallest: 11,
	}
	text, err := json.Marshal(c)
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1, "clusters":2, "mean":3, "stderr":4, "low":5, "high":6, "lost":7, "won":8, "binary":true, "p":9, "p_worse":10, "smallest":11}`, string(text))
}
