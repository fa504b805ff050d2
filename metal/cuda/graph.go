package cuda

import (
	"bytes"
	"errors"
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
	patterns patterns
	uses     uint64 // number of submissions so far
	launches int    // number of launches in all graphs
	limit    int    // maximum number of launches, unless a single graph has more
	building building
}

func newGraphs(limit int) graphs {
	return graphs{seed: maphash.MakeSeed(), all: map[uint64]*graph{}, patterns: newPatterns(limit / patternShare), limit: limit - limit/patternShare}
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

// graph is a submission that may be repeated. When it comes for the buildAt-th time, it becomes a
// CUDA graph. Until then, the graph of its pattern is updated: see patterns.
type graph struct {
	launches launches
	count    int     // number of dispatches; nearly all are one launch
	times    int     // number of times that the submission has come
	exec     uintptr // CUgraphExec; 0 until the submission has come often enough
	used     uint64  // number of the last submission that used the graph, to find the least recently used one
}

// buildAt is the number of times that a submission comes before it has a graph of its own. On an
// H200, making a graph of 247 launches takes 1.6 ms, and updating one 0.3 ms. So a graph pays if
// the submission comes about five times more.
const buildAt = 5

// nodeParams is CUDA_KERNEL_NODE_PARAMS_v1.
type nodeParams struct {
	function          uintptr
	groups, threads   [3]uint32
	shared            uint32
	parameters, extra uintptr
}

// find returns the CUgraphExec of a submission with the given number of launches: its own one or,
// if it has not come often enough, that of its pattern. It returns 0 if there is none, because the
// pattern is new.
func (g *graphs) find(d *Device, l launches, count int) (exec uintptr, err error) {
	g.uses++
	key := maphash.Bytes(g.seed, l)
	have := g.all[key]
	if have == nil || !bytes.Equal(have.launches, l) {
		have = &graph{launches: slices.Clone(l), count: count}
		if err := g.add(d, key, have); err != nil {
			return 0, err
		}
	}
	have.times++
	have.used = g.uses
	if have.exec == 0 && have.times < buildAt {
		return g.patterns.find(d, l, count)
	}
	if have.exec == 0 {
		made, err := d.build(have.launches)
		if err != nil {
			return 0, err
		}
		have.exec = made.exec
		if err := d.driver.call(cuGraphDestroy, made.graph); err != nil {
			return 0, err
		}
	}
	return have.exec, nil
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

// built is a new graph.
type built struct {
	graph, exec uintptr   // CUgraph, CUgraphExec
	nodes       []uintptr // CUgraphNode of each launch
}

// build makes a graph. Each barrier begins a new stage. The launches of a stage run concurrently
// and depend on all launches of the previous stage. Between two stages with one launch each, the
// edge is programmatic if the device supports that.
func (d *Device) build(l launches) (made built, err error) {
	c := d.driver
	graph, err := c.value(cuGraphCreate, 0)
	if err != nil {
		return built{}, err
	}
	made.graph = uintptr(graph)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.call(cuGraphDestroy, made.graph))
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
		b.node = d.queue.node(h, parameters)
		overlaps := d.overlaps && len(b.before) == 1 && len(b.stage) == 0 && (len(rest) == 0 || rest.begins())
		dependencies := b.before
		if overlaps {
			dependencies = nil
		}
		node, err := c.value(cuGraphAddKernelNode, made.graph, uintptr(unsafe.Pointer(unsafe.SliceData(dependencies))), uintptr(len(dependencies)),
			uintptr(unsafe.Pointer(&b.node)))
		if err != nil {
			return built{}, err
		}
		if overlaps {
			b.from, b.to, b.edge = b.before[0], uintptr(node), programmatic
			if err := c.call(cuGraphAddDependencies, made.graph, uintptr(unsafe.Pointer(&b.from)), uintptr(unsafe.Pointer(&b.to)),
				uintptr(unsafe.Pointer(&b.edge)), 1); err != nil {
				return built{}, err
			}
		}
		b.stage, made.nodes = append(b.stage, uintptr(node)), append(made.nodes, uintptr(node))
	}
	exec, err := c.value(cuGraphInstantiate, made.graph, 0)
	made.exec = uintptr(exec)
	return made, err
}

// node returns the parameters of a launch's node, which are valid until the next call.
func (q *queue) node(h *launchHeader, parameters launches) nodeParams {
	return nodeParams{function: h.function, groups: h.groups, threads: [3]uint32{h.threads, 1, 1}, shared: h.shared, extra: q.extra.set(parameters)}
}
