package cuda

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// A submission is kept until the launches of all submissions exceed the limit. The least recently
// used ones are then dropped.
func TestSubmissionsAreKeptWithinTheLimit(t *testing.T) {
	t.Parallel()
	g := newGraphs(100 * patternShare / (patternShare - 1))
	submit := func(id uint64, count int) {
		known, err := g.find(nil, binary.LittleEndian.AppendUint64(nil, id), count)
		require.NoError(t, err)
		require.Zero(t, known)
	}
	kept := func() (ids []uint64) {
		launches := 0
		for _, have := range g.all {
			ids = append(ids, binary.LittleEndian.Uint64(have.launches))
			launches += have.count
		}
		require.Equal(t, launches, g.launches)
		return ids
	}
	for id := range uint64(25) {
		submit(id, 10)
	}
	require.ElementsMatch(t, []uint64{15, 16, 17, 18, 19, 20, 21, 22, 23, 24}, kept())
	submit(25, 35)
	require.ElementsMatch(t, []uint64{19, 20, 21, 22, 23, 24, 25}, kept())
	submit(26, 300) // more than the limit by itself
	require.Equal(t, []uint64{26}, kept())
	submit(27, 10)
	require.Equal(t, []uint64{27}, kept())
}

func TestGraphLimit(t *testing.T) {
	t.Parallel()
	for memory, limit := range map[int]int{0: 0, 8 << 30: 16 << 10, 24 << 30: 48 << 10, 80 << 30: 64 << 10} {
		require.Equal(t, limit, graphLimit(memory), "%d bytes", memory)
	}
}
