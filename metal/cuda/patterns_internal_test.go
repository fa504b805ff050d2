package cuda

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// fakeGraphs are the functions of libcuda that make, update and free graphs.
type fakeGraphs struct {
	graphs, execs map[uintptr][]fakeNode
	handles       uintptr
	refuses       uint32 // result of updates
	built         int
	updated       int
}

type fakeNode struct {
	handle, function uintptr
	groups           [3]uint32
	parameters       string
}

// fakeDevice returns a device whose driver has these functions alone.
func fakeDevice(limit int) (*Device, *fakeGraphs) {
	f := &fakeGraphs{graphs: map[uintptr][]fakeNode{}, execs: map[uintptr][]fakeNode{}}
	c := &driver{}
	handle := func(out uintptr) uintptr {
		f.handles++
		*(*uintptr)(pointer(out)) = f.handles
		return f.handles
	}
	node := func(handle, at uintptr) fakeNode {
		p := (*nodeParams)(pointer(at))
		words := (*[5]uintptr)(pointer(p.extra))
		return fakeNode{handle, p.function, p.groups, string(unsafe.Slice((*byte)(pointer(words[1])), *(*uint64)(pointer(words[3]))))}
	}
	c.at[cuGraphCreate] = purego.NewCallback(func(out, _ uintptr) uintptr { f.graphs[handle(out)] = nil; return 0 })
	c.at[cuGraphAddKernelNode] = purego.NewCallback(func(out, graph, _, _, params uintptr) uintptr {
		f.graphs[graph] = append(f.graphs[graph], node(handle(out), params))
		return 0
	})
	c.at[cuGraphInstantiate] = purego.NewCallback(func(out, graph, _ uintptr) uintptr {
		f.execs[handle(out)] = slices.Clone(f.graphs[graph])
		f.built++
		return 0
	})
	c.at[cuGraphExecKernelNodeSetParams] = purego.NewCallback(func(exec, changed, params uintptr) uintptr {
		if f.refuses != 0 {
			return uintptr(f.refuses)
		}
		i := slices.IndexFunc(f.execs[exec], func(n fakeNode) bool { return n.handle == changed })
		f.execs[exec][i] = node(changed, params)
		f.updated++
		return 0
	})
	c.at[cuGraphDestroy] = purego.NewCallback(func(graph uintptr) uintptr { delete(f.graphs, graph); return 0 })
	c.at[cuGraphExecDestroy] = purego.NewCallback(func(exec uintptr) uintptr { delete(f.execs, exec); return 0 })
	unknown := purego.NewCallback(func(uintptr, uintptr) uintptr { return 1 })
	c.at[cuGetErrorName], c.at[cuGetErrorString] = unknown, unknown
	d := &Device{driver: c}
	d.queue.graphs = newGraphs(limit)
	return d, f
}

// submission returns launches with barriers, kernels and parameters that depend on the arguments.
func submission(count, pattern, rows int) (l launches) {
	for i := range count {
		at := len(l)
		l = append(l, make([]byte, launchHeaderBytes)...)
		l = binary.NativeEndian.AppendUint64(l, uint64(1000*i+rows))
		h := launchHeader{function: uintptr(1 + i + rows%3), groups: [3]uint32{uint32(rows), 1, 1}, threads: 32, size: 8, dispatch: uint32(i)}
		if i%(pattern+1) == 0 {
			h.barrier = 1
		}
		*(*launchHeader)(unsafe.Pointer(&l[at])) = h
	}
	return l
}

// requireLaunches checks that a graph has the launches of a submission.
func (f *fakeGraphs) requireLaunches(t *testing.T, exec uintptr, l launches) {
	t.Helper()
	for _, n := range f.execs[exec] {
		var h *launchHeader
		var parameters launches
		h, parameters, l = l.next()
		require.Equal(t, fakeNode{n.handle, h.function, h.groups, string(parameters)}, n)
	}
	require.Empty(t, l)
}

// Whatever is submitted, a graph that is launched has exactly the submission's launches, and few
// graphs are made.
func TestGraphsHaveTheLaunchesOfTheSubmission(t *testing.T) {
	d, f := fakeDevice(2000)
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 3000 {
		count, pattern, rows := 40, r.IntN(3), 1+r.IntN(30)
		l := submission(count, pattern, rows)
		exec, err := d.queue.graphs.find(d, l, count)
		require.NoError(t, err)
		key := fmt.Sprint(pattern)
		if seen[key]++; seen[key] == 1 {
			require.Zero(t, exec, "the launches of a new pattern go to the stream")
			continue
		}
		require.NotZero(t, exec)
		f.requireLaunches(t, exec, l)
	}
	require.LessOrEqual(t, len(f.execs), (2000-250)/40+3)
	require.Len(t, f.graphs, 3, "those of the patterns, which are updated")
	require.NoError(t, d.free())
	require.Empty(t, f.graphs)
	require.Empty(t, f.execs)
}

// A submission has a graph of its own once it has come buildAt times.
func TestFrequentSubmissionsHaveTheirOwnGraphs(t *testing.T) {
	d, f := fakeDevice(2000)
	find := func(rows int) uintptr {
		l := submission(40, 1, rows)
		exec, err := d.queue.graphs.find(d, l, 40)
		require.NoError(t, err)
		if exec != 0 {
			f.requireLaunches(t, exec, l)
		}
		return exec
	}
	require.Zero(t, find(1))
	shared := find(2)
	require.Equal(t, []uintptr{shared, shared, shared}, []uintptr{find(3), find(4), find(2)})
	updated := f.updated
	require.Equal(t, shared, find(2))
	require.Equal(t, updated, f.updated, "nothing has changed")
	for range buildAt - 4 {
		require.Equal(t, shared, find(2))
	}
	require.Equal(t, 1, f.built)
	own := find(2)
	require.NotEqual(t, shared, own)
	require.Equal(t, []uintptr{own, shared, own}, []uintptr{find(2), find(5), find(2)})
	require.Equal(t, 2, f.built)
}

// The launches of all patterns have a limit, and small submissions have no pattern.
func TestPatternsAreKeptWithinTheLimit(t *testing.T) {
	d, f := fakeDevice(patternShare * 100)
	p := &d.queue.graphs.patterns
	for range 2 {
		for pattern := range 2 {
			_, err := p.find(d, submission(40, pattern, 1), 40)
			require.NoError(t, err)
		}
	}
	require.Len(t, f.execs, 2)
	for range 2 {
		exec, err := p.find(d, submission(40, 0, 2), 40)
		require.NoError(t, err)
		require.NotZero(t, exec)
	}
	for range 2 {
		_, err := p.find(d, submission(50, 0, 1), 50)
		require.NoError(t, err)
	}
	require.Equal(t, 90, p.launches)
	require.Len(t, f.execs, 2, "the least recently used one was dropped")
	for _, count := range []int{minPattern - 1, 101} {
		for range 3 {
			exec, err := p.find(d, submission(count, 0, 1), count)
			require.NoError(t, err)
			require.Zero(t, exec)
		}
	}
	require.Equal(t, 90, p.launches)
}

// If the driver refuses an update, launches of that pattern go to the stream.
func TestRefusedUpdates(t *testing.T) {
	const refused = 910 // CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
	for result, fails := range map[uint32]bool{refused: false, resultLaunchFailed: true} {
		d, f := fakeDevice(2000)
		find := func(rows int) (uintptr, error) { return d.queue.graphs.find(d, submission(40, 1, rows), 40) }
		for rows := range 2 {
			_, err := find(rows)
			require.NoError(t, err)
		}
		f.refuses = result
		exec, err := find(3)
		require.Zero(t, exec)
		require.Equal(t, fails, err != nil)
		if !fails {
			require.Empty(t, f.execs)
			exec, err = find(4)
			require.NoError(t, err)
			require.Zero(t, exec)
		}
	}
}
