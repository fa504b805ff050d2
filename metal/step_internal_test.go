package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
)

// TestSlotsAreLocatedOnceAStep checks that the layers of a group share the slots that the first of
// them has set, that groups do not, and that the next step sets its own.
func TestSlotsAreLocatedOnceAStep(t *testing.T) {
	t.Parallel()
	s := step{}
	s.inputs = &indices{values: make([]int32, 1<<14)}
	kv := &cache{shape: compute.CacheShape{Layers: 4, PageSize: 16}}
	slot := func(layer, row int) int32 { return s.slots[slotInts*(len(s.batch.Tokens)*(layer/4)+row)+1] }
	begin := func(position int32) {
		s.inputs.used = 0
		s.batch = &compute.Batch{
			Tokens: []int32{1, 2}, Positions: []int32{position, position + 1},
			Seqs: []compute.Seq{{Rows: 2, Pages: []int32{7, 3}, Further: [][]int32{{5, 9}}}},
		}
		s.mapPages()
	}
	for _, position := range []int32{14, 15} {
		begin(position)
		s.locate(kv, 1)
		s.locate(kv, 6)
		want := [2]int32{7*16 + position, 7*16 + position + 1}
		if position == 15 {
			want[1] = 3 * 16 // of the next page
		}
		require.Equal(t, want, [2]int32{slot(0, 0), slot(0, 1)})
		require.Equal(t, 5*16+position, slot(4, 0), "the second group has its own pages")
		s.slots[1] = -1
		s.locate(kv, 2)
		require.Equal(t, int32(-1), slot(0, 0), "a later layer does not set the slots again")
	}
}

// TestStepsAreSplitEarly checks that only a step for which the GPU would wait is split, after the
// same number of dispatches, and only if as many follow.
func TestStepsAreSplitEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dispatches, inFlight int
		split                bool
	}{{80, 0, true}, {500, 0, true}, {79, 0, false}, {500, 1, false}} {
		s := step{work: make([]Dispatch, c.dispatches), inFlight: c.inFlight}
		s.splitEarly()
		for i := range s.work {
			require.Equal(t, c.split && i == earlyPart, s.work[i].SplitBefore, "dispatch %d of %d", i, c.dispatches)
		}
	}
}
