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
		r := ingot(t, "", append([]string{"bench", "--roofline", "M4-Max", "--json", "-", "--mode", "decode", "--batch", "1", "--context", "0,2k"}, args...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		var list []roofline.Prediction
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &list))
		return list
	}
	list := predict("--shape", "smollm-135m")
	require.Len(t, list, 4, "two contexts at two bandwidths")
	file := predict("--model", path)
	for i := range file {
		require.Equal(t, "smollm", file[i].Model)
		file[i].Model = list[i].Model
	}
	require.Equal(t, list, file)
	require.Greater(t, list[0].LimitTokensPerS, list[2].LimitTokensPerS, "a longer context is slower")
}

// TestBenchRooflineOfShapes predicts the default shapes, with several streams and with a prompt.
func TestBenchRooflineOfShapes(t *testing.T) {
	t.Parallel()
	r := ingot(t, "", "bench", "--roofline", "m1 pro")
	require.Equal(t, exitOK, r.code, r.stderr)
	for _, shape := range []string{"glm-4.7-flash-q4_k", "smollm-135m-q4_0"} {
		for _, step := range []string{"1 rows after 2048", "16 rows after 2048", "64 rows after 2048", "prompt of 2048 after 0"} {
			require.Regexp(t, shape+` +M1-Pro +200 +5\.3 +`+step+` +\d`, r.stdout)
		}
	}
	require.Contains(t, r.stdout, "A prediction, not a measurement: nothing was run.")
	require.Contains(t, r.stdout, roofline.Measured().Device+". No Mac was measured.")
	r = ingot(t, "", "bench", "--roofline", "m1", "--shape", "smollm-135m", "--mode", "prefill", "--prompt", "600")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "prompt of 600 after 0")
	require.NotContains(t, r.stdout, " rows after ")
}
