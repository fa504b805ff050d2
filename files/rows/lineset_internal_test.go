package rows

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A set of lines is compared with a map, around the ends of its blocks.
func TestSetsOfLines(t *testing.T) {
	t.Parallel()
	s, sums := lineSet{}, map[int]string{}
	lines := []int{1, 2, 62, 63, 64, 65, 127, 128, 1 << 30}
	for i, line := range lines {
		require.False(t, s.has(line))
		require.False(t, s.add(line))
		require.True(t, s.add(line), "it was added before")
		if i%2 == 0 {
			s.setSum(line, uint32(line+7))
			sums[line] = sum8(uint32(line + 7))
		}
	}
	check := func() {
		t.Helper()
		for _, line := range append([]int{-1, 0, 3, 61, 66, 126, 129, 1<<30 - 1, 1<<30 + 1}, lines...) {
			_, has := sums[line]
			for _, other := range []string{sum8(uint32(line + 7)), sum8(uint32(line + 8)), "0000", "zz", ""} {
				present, same := s.compare(line, other)
				require.Equal(t, has, present, line)
				require.Equal(t, has && other == sums[line], same, "%d, %s", line, other)
			}
		}
	}
	check()
	for i, line := range lines {
		require.True(t, s.has(line))
		require.Equal(t, i%2 == 0, s.remove(line), line)
		require.False(t, s.has(line))
		delete(sums, line)
		check()
		require.False(t, s.remove(line), "it has no checksum any more")
	}
	for _, line := range []int{-64, -1, 0} {
		require.False(t, s.has(line))
	}
}

func sum8(v uint32) string {
	const digits = "0123456789abcdef"
	text := make([]byte, 8)
	for i := range text {
		text[i] = digits[v>>(28-4*i)&15]
	}
	return string(text)
}
