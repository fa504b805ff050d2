package metal

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

// TestPackedGeometry compares the tables of the kernels for packed weights with the source of the
// kernels. Every kernel has a geometry, and a type has packed sizes exactly if the source has a
// struct for it.
func TestPackedGeometry(t *testing.T) {
	t.Parallel()
	src, err := weightsSource(gguf.TypeQ40, true)
	require.NoError(t, err)
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^(?:PRODUCT|SPLIT_PRODUCT|BALANCED_PRODUCT|ROW_PRODUCT|GATED|ROW_GATED|GATED_EXPERTS|ROW_GATED_EXPERTS|EXPERTS_DOWN|ROW_EXPERTS)\((\w+), `).FindAllStringSubmatch(src.Text, -1) {
		names = append(names, m[1])
	}
	var known []string
	for name := range packedGeometry(gguf.TypeQ4K, true) {
		known = append(known, name)
	}
	require.ElementsMatch(t, known, names)

	sizes, sources := map[string][]int{}, map[string][]int{}
	for kind, size := range packedSizes {
		require.Contains(t, weightTypes, kind)
		sizes[kind.String()] = []int{size.blocks, size.header, size.block, kind.BlockSize()}
		if kind.BlockSize() > 1 {
			require.Equal(t, kind.BlockSize(), blockValues*size.blocks, "%v", kind)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^struct (\w+) : [^{]+ \{\n +enum \{ [^}]*\bper = (\d+), header = (\d+), unit = (\d+), source_block = (\d+)`).FindAllStringSubmatch(src.Text, -1) {
		for _, number := range m[2:] {
			n, err := strconv.Atoi(number)
			require.NoError(t, err)
			sources[m[1]] = append(sources[m[1]], n)
		}
	}
	require.Equal(t, sources, sizes)
}
