package metal

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIntegerGeometry holds the tables of the integer kernels against their source: every kernel has a geometry and every type that is
// packed its sizes.
func TestIntegerGeometry(t *testing.T) {
	t.Parallel()
	src, err := nativeSource("weights.cu")
	require.NoError(t, err)
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^(?:PRODUCT|ROW_PRODUCT|GATED|GATED_EXPERTS|EXPERTS_DOWN|ROW_EXPERTS)\((\w+), `).FindAllStringSubmatch(src.Text, -1) {
		names = append(names, m[1])
	}
	var known []string
	for name := range integerGeometry {
		known = append(known, name)
	}
	require.ElementsMatch(t, known, names)

	for _, kind := range weightTypes {
		size, packed := packedSizes[kind]
		require.Equal(t, kind.BlockSize() > 1, packed, "%v", kind)
		if packed {
			require.Equal(t, kind.BlockSize(), blockValues*size.blocks, "%v", kind)
			found := regexp.MustCompile(`(?s)struct ` + kind.String() + ` .*?header = (\d+), unit = (\d+)`).FindStringSubmatch(src.Text)
			require.Len(t, found, 3, "%v", kind)
			require.Equal(t, []string{strconv.Itoa(size.header), strconv.Itoa(size.block)}, found[1:], "%v", kind)
		}
	}
}
