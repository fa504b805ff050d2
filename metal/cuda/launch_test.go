package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

// TestLaunches adds dispatches to launches and checks what next returns.
func TestLaunches(t *testing.T) {
	t.Parallel()
	d := &Device{buffers: []buffer{{address: 0x1000, bytes: 64}, {address: 0x2000, bytes: 64}}}
	d.pipelines = []pipeline{{function: 7, name: "translated"}, {function: 8, name: "native", isCUDA: true}}
	work := []metal.Dispatch{
		{Pipeline: 1, Buffers: []metal.Binding{{Buffer: 2, Offset: 4}}, Args: []byte{1, 2, 3, 4}, Groups: [3]int{3, maxGroups + 5, 2}, Threads: [3]int{64, 1, 1}, Barrier: true},
		{Pipeline: 2, Buffers: []metal.Binding{{Buffer: 1}}, ThreadgroupMemory: 16, Groups: [3]int{1, 1, 1}, Threads: [3]int{32, 1, 1}},
	}
	var l launches
	for i := range work {
		l = l.add(d, &work[i], i)
	}
	same := launches(nil).add(d, &work[0], 0)
	require.Equal(t, l[:len(same)], same)
	for _, c := range []struct {
		header     launchHeader
		parameters []byte
	}{
		{launchHeader{7, [3]uint32{3, maxGroups, 2}, 64, 0, 1, 16, 0}, []byte{4, 0x20, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0}},
		{launchHeader{7, [3]uint32{3, 5, 2}, 64, 0, 0, 16, 0}, []byte{4, 0x20, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0xff, 0xff, 0, 0}},
		{launchHeader{8, [3]uint32{1, 1, 1}, 32, 16, 0, 8, 1}, []byte{0, 0x10, 0, 0, 0, 0, 0, 0}},
	} {
		var h *launchHeader
		var parameters launches
		h, parameters, l = l.next()
		require.Equal(t, c.header, *h)
		require.Equal(t, launches(c.parameters), parameters)
	}
	require.Empty(t, l)
}
