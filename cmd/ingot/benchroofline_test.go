package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/roofline"
)

// TestBenchRoofline predicts the speed for a shape and for a file of the same model.
func TestBenchRoofline(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "smollm.gguf")
	r := ingot(t, "", "bench", "--shape", "smollm-135m", "--write", path)
	require.Equal(t, exitOK, r.code, r.stderr)
	predict := func(args ...string) []roofline.Prediction {
		r := ingot(t, "", append([]string{"bench", "--roofline", "M4-Max", "--json", "-", "--context", "0,2k"}, args...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		var list []roofline.Prediction
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &list))
		return list
	}
	list := predict("--shape", "smollm-135m")
	require.Len(t, list, 4, "two contexts at two bandwidths")
	require.Equal(t, list, predict("--model", path))
	require.Greater(t, list[0].LimitTokensPerS, list[2].LimitTokensPerS, "a longer context is slower")

	r = ingot(t, "", "bench", "--roofline", "m1 pro", "--shape", "smollm-135m")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `M1-Pro +200 +1 +0 +\S+ +245 `, r.stdout)
	require.Contains(t, r.stdout, "A prediction, not a measurement")
}
