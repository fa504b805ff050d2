package cuda

import (
	"bytes"
	"hash/maphash"
	"slices"
	"unsafe"
)

// maxGraphs is the maximum number of retained graphs. Decoding needs one graph for each step in flight.
const maxGraphs = 64

// graphs holds earlier submissions as CUDA graphs. A launch in a stream takes the GPU about four times as long as a launch in a graph.
type graphs struct {
	seed     maphash.Seed
	all      map[uint64]*graph
	uses     uint64 // number of submissions so far
	building building
}

// building holds the memory that is used to make a graph. Calls get addresses in it, so it must not move.
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

// programmatic is an edge from one kernel to the next (CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC). The second
// kernel is launched as soon as every threadgroup of the first one has called ingot_wait. It then waits, in its own call of ingot_wait, until
// the first kernel has ended. So the launch of a kernel overlaps with the kernel before it.
var programmatic = edgeData{fromPort: 1, kind: 1}

// graph is a submission that may be repeated. The first time, its kernels are launched one by one in the stream. The second time, it becomes a
// CUDA graph.
type graph struct {
	launches launches
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

// find returns the graph of launches, and makes it if necessary. It returns nil for launches that are submitted for the first time.
func (g *graphs) find(d *Device, l launches) (*graph, error) {
	g.uses++
	key := maphash.Bytes(g.seed, l)
	have := g.all[key]
	if have == nil || !bytes.Equal(have.launches, l) {
		if have != nil || len(g.all) >= maxGraphs {
			if err := g.drop(d, key); err != nil {
				return nil, err
			}
		}
		g.all[key] = &graph{launches: slices.Clone(l), used: g.uses}
		return nil, nil
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

// drop removes the graph with the given key. If there is none, it removes the least recently used graph.
func (g *graphs) drop(d *Device, key uint64) error {
	if g.all[key] == nil {
		for other, have := range g.all {
			if first := g.all[key]; first == nil || have.used < first.used {
				key = other
			}
		}
	}
	have := g.all[key]
	delete(g.all, key)
	return d.destroy(have)
}

// destroy frees a graph. CUDA delays this until the graph has run.
func (d *Device) destroy(g *graph) error {
	if g.exec == 0 {
		return nil
	}
	return d.driver.call(cuGraphExecDestroy, g.exec)
}

// build makes a graph. Each barrier begins a new stage. The launches of a stage run concurrently and depend on all launches of the previous
// stage. Between two stages with one launch each, the edge is programmatic if the device supports that.
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
