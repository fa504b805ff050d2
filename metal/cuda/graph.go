package cuda

import (
	"bytes"
	"hash/maphash"
	"slices"
	"unsafe"
)

const (
	// launchBytes is the memory of the GPU that a launch takes in a graph: 7.1 KB on an H100 with
	// CUDA 12.
	launchBytes = 8 << 10
	// maxGraphLaunches is the maximum number of launches in all graphs together. A step of 64
	// sequences of different lengths is one of several hundred submissions: with fewer graphs, they
	// are made again and again.
	maxGraphLaunches = 64 << 10
	// graphShare sets how much of the GPU's free memory the graphs may take: that memory divided by
	// graphShare.
	graphShare = 64
)

// graphs holds earlier submissions as CUDA graphs. A launch in a stream takes the GPU about four
// times as long as a launch in a graph.
type graphs struct {
	seed     maphash.Seed
	all      map[uint64]*graph
	uses     uint64 // number of submissions so far
	launches int    // number of launches in all graphs
	limit    int    // maximum number of launches, unless a single graph has more
	building building
}

func newGraphs(limit int) graphs {
	return graphs{seed: maphash.MakeSeed(), all: map[uint64]*graph{}, limit: limit}
}

// graphLimit returns the maximum number of launches in all graphs on a GPU with the given free
// memory in bytes.
func graphLimit(memory int) int { return min(memory/graphShare/launchBytes, maxGraphLaunches) }

// building holds the memory that is used to make a graph. Calls get addresses in it, so it must not
// move.
type building struct {
	before, stage []uintptr // nodes of the previous and of the current stage
	node          nodeParams
	from, to      uintptr // the nodes of an edge
	edge          edgeData
}

// edgeData is CUgraphEdgeData.
type edgeData struct {
	fromPort, toPort, kind byte
	_                      [5]byte
}

// programmatic is an edge from one kernel to the next (CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
// CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC). The second kernel is launched as soon as every
// threadgroup of the first one has called ingot_wait. It then waits, in its own call of ingot_wait,
// until the first kernel has ended. So the launch of a kernel overlaps with the kernel before it.
var programmatic = edgeData{fromPort: 1, kind: 1}

// graph is a submission that may be repeated. The first time, its kernels are launched one by one
// in the stream. The second time, it becomes a CUDA graph.
type graph struct {
	launches launches
	count    int     // number of dispatches; nearly all are one launch
	exec     uintptr // CUgraphExec; 0 until the submission is repeated
	used     uint64  // number of the last submission that used the graph, to find the least recently used one
}

// nodeParams is CUDA_KERNEL_NODE_PARAMS_v1.
type nodeParams struct {
	function          uintptr
	groups, threads   [3]uint32
	shared            uint32
	parameters, extra uintptr
}

// find returns the graph of a submission with the given number of launches, and makes it if
// necessary. It returns nil for a submission that comes for the first time.
func (g *graphs) find(d *Device, l launches, count int) (*graph, error) {
	g.uses++
	key := maphash.Bytes(g.seed, l)
	have := g.all[key]
	if have == nil || !bytes.Equal(have.launches, l) {
		return nil, g.add(d, key, &graph{launches: slices.Clone(l), count: count, used: g.uses})
	}
	have.used = g.uses
	if have.exec == 0 {
		var err error
		if have.exec, err = d.build(have.launches); err != nil {
			return nil, err
		}
	}
	return have, nil
}

// add adds a graph. It first drops the graph with the same key, if there is one, and the least
// recently used graphs if there are too many.
func (g *graphs) add(d *Device, key uint64, added *graph) error {
	if g.all[key] != nil {
		if err := g.drop(d, key); err != nil {
			return err
		}
	}
	for len(g.all) > 0 && g.launches+added.count > g.limit {
		if err := g.drop(d, g.oldest()); err != nil {
			return err
		}
	}
	g.all[key] = added
	g.launches += added.count
	return nil
}

func (g *graphs) oldest() (key uint64) {
	for other, have := range g.all {
		if first := g.all[key]; first == nil || have.used < first.used {
			key = other
		}
	}
	return key
}

func (g *graphs) drop(d *Device, key uint64) error {
	have := g.all[key]
	delete(g.all, key)
	g.launches -= have.count
	return d.destroy(have)
}

// destroy frees a graph. CUDA delays this until the graph has run.
func (d *Device) destroy(g *graph) error {
	if g.exec == 0 {
		return nil
	}
	return d.driver.call(cuGraphExecDestroy, g.exec)
}

// build makes a graph. Each barrier begins a new stage. The launches of a stage run concurrently
// and depend on all launches of the previous stage. Between two stages with one launch each, the
// edge is programmatic if the device supports that.
func (d *Device) build(l launches) (exec uintptr, err error) {
	c := d.driver
	made, err := c.value(cuGraphCreate, 0)
	if err != nil {
		return 0, err
	}
	defer func() {
		if destroyErr := c.call(cuGraphDestroy, uintptr(made)); err == nil {
			err = destroyErr
		}
	}()
	b := &d.queue.graphs.building
	b.before, b.stage = b.before[:0], b.stage[:0]
	for rest := l; len(rest) > 0; {
		var h *launchHeader
		var parameters launches
		h, parameters, rest = rest.next()
		if h.barrier != 0 {
			b.before, b.stage = b.stage, b.before[:0]
		}
		b.node = nodeParams{function: h.function, groups: h.groups, threads: [3]uint32{h.threads, 1, 1}, shared: h.shared, extra: d.queue.extra.set(parameters)}
		overlaps := d.overlaps && len(b.before) == 1 && len(b.stage) == 0 && (len(rest) == 0 || rest.begins())
		dependencies := b.before
		if overlaps {
			dependencies = nil
		}
		node, err := c.value(cuGraphAddKernelNode, uintptr(made), uintptr(unsafe.Pointer(unsafe.SliceData(dependencies))), uintptr(len(dependencies)),
			uintptr(unsafe.Pointer(&b.node)))
		if err != nil {
			return 0, err
		}
		if overlaps {
			b.from, b.to, b.edge = b.before[0], uintptr(node), programmatic
			if err := c.call(cuGraphAddDependencies, uintptr(made), uintptr(unsafe.Pointer(&b.from)), uintptr(unsafe.Pointer(&b.to)),
				uintptr(unsafe.Pointer(&b.edge)), 1); err != nil {
				return 0, err
			}
		}
		b.stage = append(b.stage, uintptr(node))
	}
	result, err := c.value(cuGraphInstantiate, uintptr(made), 0)
	return uintptr(result), err
}
