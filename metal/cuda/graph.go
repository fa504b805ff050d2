package cuda

import (
	"bytes"
	"hash/maphash"
	"slices"
	"unsafe"
)

// maxGraphs is how many graphs are retained. A stream of rows that decode has one for each of the steps in flight.
const maxGraphs = 64

// graphs holds earlier submissions as CUDA graphs. A launch in a stream takes the GPU about four times as long as one in a graph.
type graphs struct {
	seed     maphash.Seed
	all      map[uint64]*graph
	uses     uint64
	building building
}

// building is what a graph is made with, in memory that does not move.
type building struct {
	before, stage []uintptr // nodes of the stage before, and of this one
	node          nodeParams
}

// graph is a submission. It becomes a CUDA graph the second time it is seen; the first time it is launched in the stream.
type graph struct {
	launches launches
	exec     uintptr // CUgraphExec; 0 before the second time
	used     uint64  // when
}

// nodeParams is CUDA_KERNEL_NODE_PARAMS_v1.
type nodeParams struct {
	function          uintptr
	groups, threads   [3]uint32
	shared            uint32
	parameters, extra uintptr
}

// find returns the graph of launches, or nil the first time that they are submitted.
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

// drop removes the graph for key or, if there is none, the least recently used one.
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

// destroy frees a graph. CUDA does so after the graph has run.
func (d *Device) destroy(g *graph) error {
	if g.exec == 0 {
		return nil
	}
	return d.driver.call(cuGraphExecDestroy, g.exec)
}

// build makes a graph: a launch with a barrier depends on those since the barrier before it; those without one run at the same time.
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
		node, err := c.value(cuGraphAddKernelNode, uintptr(made), uintptr(unsafe.Pointer(unsafe.SliceData(b.before))), uintptr(len(b.before)),
			uintptr(unsafe.Pointer(&b.node)))
		if err != nil {
			return 0, err
		}
		b.stage = append(b.stage, uintptr(node))
	}
	result, err := c.value(cuGraphInstantiate, uintptr(made), 0)
	return uintptr(result), err
}
