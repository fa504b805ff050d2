package roofline_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/engine/gguf"
)

// TestDocumentedPredictions checks that docs/metal.md has the predictions for every chip.
func TestDocumentedPredictions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metal.md")
	require.NoError(t, err)
	var all roofline.Chip // the variants of all chips, so that each step is recorded once
	var names []string
	for _, name := range roofline.Chips() {
		c, err := roofline.ParseChip(name)
		require.NoError(t, err)
		for range c.Variants {
			names = append(names, strings.ReplaceAll(name, "-", " "))
		}
		all.Variants = append(all.Variants, c.Variants...)
	}
	lines := make([]string, len(names))
	for i, v := range all.Variants {
		lines[i] = fmt.Sprintf("| %s | %.0f | %.1f |", names[i], v.GBPerS, v.Limits().FLOPS/1e12)
	}
	measured := roofline.Measured()
	for _, m := range []struct {
		shape string
		kind  gguf.Type
	}{{"glm-4.7-flash", gguf.TypeQ4K}, {"smollm-135m", gguf.TypeQ40}} {
		f := layout(t, m.shape, m.kind)
		for _, w := range []roofline.Workload{{Streams: 1, Context: 2048}, {Streams: 16, Context: 2048}, {Streams: 64, Context: 2048}, {Streams: 1, Prompt: 2048}} {
			list, err := roofline.Predict(f, gguf.TypeF16, all, w, &measured)
			require.NoError(t, err)
			for i, p := range list {
				lines[i] += fmt.Sprintf(" %s to %s |", whole(p.ExpectedTokensPerS), whole(p.LimitTokensPerS))
			}
		}
	}
	start := bytes.Index(text, []byte("### Predictions\n"))
	end := bytes.Index(text, []byte("A test compares every line"))
	require.Less(t, start, end)
	for i, line := range lines {
		require.Contains(t, string(text[start:end]), line, "%s", names[i])
	}
}

// whole returns a number without decimals, with a comma for thousands.
func whole(v float64) string {
	n := int(math.Round(v))
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
