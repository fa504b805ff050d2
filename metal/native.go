package metal

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// nativeKernels are kernels in kernels/cuda that replace portable ones. They compute attention over pages of float16, routing with
// routers in float32, and the largest logit of a row. The kernels of products are in native_integers.go.
type nativeKernels struct {
	attention, attentionSplit map[int]Pipeline // by number of values per head; nil without native kernels
	attentionJoin             Pipeline
	route                     Pipeline
	rowRoute, rowChoose       Pipeline
	topParts, topJoin         Pipeline
	counters                  Buffer // counters of kernel route; all 0 between dispatches
	logits                    Buffer // logits of kernel row_route
	memory                    int    // bytes of threadgroup memory that the device allows
}

const (
	nativeSplitKeys = 128   // positions per split of attention: split_keys of join.h
	partHeader      = 4     // floats before the values of a split: part_header of join.h
	nativeWarps     = 8     // warps per threadgroup of attention.cu
	logitRows       = 4     // rows per warp of kernel route
	counterRows     = 16384 // maximum number of rows per dispatch of kernel route
	// maxNativeExperts is the maximum number of experts that fits into the threadgroup memory of kernel route.
	maxNativeExperts = 1024
	topPartCount     = 32 // parts into which a row of logits is divided
	topPartInts      = 3  // values of four bytes per part: the fields of TopPart in choose.cu
	// nativeScratch is the minimum number of bytes of scratch memory.
	nativeScratch = 1 << 20
	// busyTiles is the minimum number of tiles of attention for which one threadgroup computes all splits of a tile. An H100 has 132
	// multiprocessors, so this many threadgroups occupy it. With fewer tiles, each split has a threadgroup, and another dispatch joins the
	// splits.
	busyTiles = 128
)

// nativeSource reads a file in folder kernels/cuda.
func nativeSource(name string) (Source, error) {
	dir, err := fs.Sub(kernels, "kernels/cuda")
	if err != nil {
		return Source{}, fmt.Errorf("read kernels: %w", err)
	}
	src, err := ReadSource(dir, name)
	src.Native = true
	return src, err
}

// compile compiles the kernels and makes their pipelines.
func (n *nativeKernels) compile(dev Device, mode Mode) error {
	n.memory = dev.Info().ThreadgroupMemory
	n.attentionSplit = map[int]Pipeline{}
	n.attention = map[int]Pipeline{64: 0, 128: 0, 256: 0, 512: 0}
	for file, pipelines := range map[string]map[string]*Pipeline{
		"choose.cu":    {"route": &n.route, "row_route": &n.rowRoute, "row_choose": &n.rowChoose, "top_parts": &n.topParts, "top_join": &n.topJoin},
		"attention.cu": {"attention_join": &n.attentionJoin},
	} {
		src, err := nativeSource(file)
		if err != nil {
			return err
		}
		lib, err := dev.Compile(src, mode)
		if err != nil {
			return err
		}
		for name, p := range pipelines {
			if *p, err = dev.Pipeline(lib, name, nil); err != nil {
				return err
			}
		}
		if file != "attention.cu" {
			continue
		}
		for values := range n.attention {
			if n.attention[values], err = dev.Pipeline(lib, fmt.Sprintf("attention_%d", values), nil); err != nil {
				return err
			}
			if n.attentionSplit[values], err = dev.Pipeline(lib, fmt.Sprintf("attention_split_%d", values), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// attentionFor returns the kernel for an attention. It returns false if only the portable kernels can compute the attention.
func (n *nativeKernels) attentionFor(shape compute.AttentionShape, c *cache) (Pipeline, bool) {
	p, ok := n.attention[shape.ValueDim]
	return p, ok && shape.Window == 0 && shape.Sinks == nil && c.shape.Type == gguf.TypeF16 && shape.KeyDim%32 == 0 && nativeAttentionBytes(shape) <= n.memory
}

// nativeAttentionBytes returns the bytes of threadgroup memory that attention.cu needs. The arrays are listed in attend.
func nativeAttentionBytes(shape compute.AttentionShape) int {
	query := shape.KeyDim
	if shape.KeyDim/32%2 == 0 {
		query += 32
	}
	bytes := attentionPairs*(4*(nativeSplitKeys+4)+2*(nativeSplitKeys+8)) + 4*nativeSplitKeys + 8*attentionPairs + 2*attentionPairs*query
	if shares := nativeWarps * 64 / shape.ValueDim; shares > 1 {
		bytes += shares * attentionPairs * 4 * shape.ValueDim
	}
	return bytes
}

// nativeAttention records an attention. If there are few tiles, each split of a tile has its own threadgroup, and a second
// dispatch joins the splits.
func (s *step) nativeAttention(p Pipeline, dst, q compute.Tensor, shape compute.AttentionShape, c *cache, layer int) {
	tiles, n := s.pairTiles(shape.Heads/shape.KVHeads, 0)
	a := attentionArgsOf(dst, q, shape, c)
	longest := int(slices.Max(s.batch.Positions[:dst.Rows])) + 1
	splits := (longest + nativeSplitKeys - 1) / nativeSplitKeys
	if splits == 1 || n*shape.KVHeads >= busyTiles || dst.Rows*shape.Heads*splits*(shape.ValueDim+partHeader)*4 > s.scratch.bytes {
		splits = 0
	}
	a.splits = uint32(splits)
	if splits > 0 {
		p = s.native.attentionSplit[shape.ValueDim]
	}
	in := s.stored(c, layer)
	g := grid{x: n, y: shape.KVHeads, z: splits, simdgroups: nativeWarps, shared: nativeAttentionBytes(shape)}
	record(s, "attention", p, g, &a,
		at(q), in.keys, in.values, in.slots, s.tables, tiles, Binding{Buffer: s.scratch.buffer}, at(dst))
	if splits > 0 {
		s.pending = pending{dst: dst, join: a}
		if dst.Rows > 1 {
			s.flush()
		}
	}
}

// attentionJoin records the join of an attention's splits.
func (s *step) attentionJoin(dst compute.Tensor, a attentionArgs) {
	const simdgroups = 2
	g := grid{x: (int(a.valueDim) + 32*simdgroups - 1) / (32 * simdgroups), y: int(a.heads), z: dst.Rows, simdgroups: simdgroups, shared: 8 * int(a.splits)}
	record(s, "attention_join", s.native.attentionJoin, g, &a,
		Binding{Buffer: s.scratch.buffer}, s.slotMapping, at(dst))
}

// The argument structs of choose.cu.
type (
	nativeRouteArgs struct {
		n, experts, rows, used, xStride, dstStride uint32
		sigmoid, normalise, biased                 uint32
		scale                                      float32
	}
	rowRouteArgs struct {
		n, experts, normThreads uint32
		eps                     float32
	}
	nativeTopArgs struct{ cols, parts, srcStride, dstStride uint32 }
)

// nativeRoute records a routing. It returns false and records nothing if the portable kernel has to compute the routing.
func (s *step) nativeRoute(dst, x compute.Tensor, w *weight, bias compute.Weight, shape compute.RouteShape) bool {
	if !s.routes(w, shape) {
		return false
	}
	logits := Binding{Buffer: s.scratch.buffer}
	s.inParts(dst.Rows, shape.Experts, func(from, rows int) {
		for first := from; first < from+rows; first += counterRows {
			n := min(counterRows, from+rows-first)
			a := nativeRouteArgsOf(rowsFrom(dst, first, n), x, w, bias, shape)
			g := grid{x: (shape.Experts + 3) / 4, y: (n + logitRows - 1) / logitRows, simdgroups: 4, shared: 8 * logitRows * shape.Experts}
			recordInteger(s, "route", s.native.route, g, &a, dst,
				Binding{Buffer: w.buffer}, bind(bias, logits), at(rowsFrom(x, first, n)), logits, Binding{Buffer: s.native.counters}, at(rowsFrom(dst, first, n)))
		}
	})
	s.integer.grouped = groupedChoices{} // the logits have overwritten the grouped choices in scratch memory
	return true
}

// choice describes how one row's experts are chosen, by the logits in nativeKernels.logits. The zero value, in which args.experts is 0,
// means that no choice is described.
type choice struct {
	routing compute.Tensor
	bias    Binding
	args    nativeRouteArgs
}

// rowRoute records the logits of a row's routing, together with the RMSNorm that makes the row. The choice of the experts becomes pending.
// If there is no such RMSNorm, or if another kernel has to compute the routing, it returns false and records only pending operations.
func (s *step) rowRoute(dst, x compute.Tensor, w *weight, bias compute.Weight, shape compute.RouteShape) bool {
	p := s.pending
	p = s.fold(dst, x, p.gain != nil && p.latents.gain == nil && p.gain.in == w.in && s.routes(w, shape))
	if p.dst.Buffer == nil {
		return false
	}
	const simdgroups = 8 // each computes the logit of an expert
	logits := Binding{Buffer: s.native.logits}
	a := rowRouteArgs{uint32(w.in), uint32(shape.Experts), uint32(32 * normGroups(w.in)), p.eps}
	g := grid{x: (shape.Experts + simdgroups - 1) / simdgroups, y: 1, simdgroups: simdgroups, shared: 4 * w.in}
	record(s, "route", s.native.rowRoute, g, &a, Binding{Buffer: w.buffer}, at(p.src), Binding{Buffer: p.gain.buffer}, at(x),
		Binding{Buffer: s.integer.activations}, logits)
	row := x.Head(1)
	row.Cols = 0
	s.integer.quantised = quantised{row, 1, w.in, 0}
	s.pending = pending{dst: dst, choice: choice{dst, bind(bias, logits), nativeRouteArgsOf(dst, x, w, bias, shape)}}
	return true
}

// choose records a choice of experts.
func (s *step) choose(c choice) {
	record(s, "route", s.native.rowChoose, grid{x: 1, y: 1, simdgroups: 1, shared: c.bytes()}, &c.args, Binding{Buffer: s.native.logits}, c.bias, at(c.routing))
}

// bytes returns the threadgroup memory of a choice: two floats per expert.
func (c *choice) bytes() int { return 8 * int(c.args.experts) }

// routes reports whether the native kernels can compute a routing.
func (s *step) routes(w *weight, shape compute.RouteShape) bool {
	return s.native.attention != nil && !shape.BiasLogits && w.kind == gguf.TypeF32 && shape.Experts <= maxNativeExperts && shape.Used <= 32
}

func nativeRouteArgsOf(dst, x compute.Tensor, w *weight, bias compute.Weight, shape compute.RouteShape) nativeRouteArgs {
	return nativeRouteArgs{
		uint32(w.in), uint32(shape.Experts), uint32(dst.Rows), uint32(shape.Used), uint32(x.Stride), uint32(dst.Stride),
		flag(shape.Gating == compute.GatingSigmoid), flag(shape.Normalise), flag(bias != nil), shape.Scale,
	}
}

// nativeTop records the search for the largest logit of each row. It returns false and records nothing on devices
// without native kernels.
func (s *step) nativeTop(dst, logits compute.Tensor) bool {
	if s.native.attention == nil {
		return false
	}
	parts := Binding{Buffer: s.scratch.buffer}
	s.inParts(dst.Rows, topPartInts*topPartCount, func(first, n int) {
		a := nativeTopArgs{uint32(logits.Cols), topPartCount, uint32(logits.Stride), uint32(dst.Stride)}
		record(s, "top", s.native.topParts, grid{x: topPartCount, y: n, simdgroups: 8}, &a, at(rowsFrom(logits, first, n)), parts)
		record(s, "top", s.native.topJoin, grid{x: n, y: 1, simdgroups: 1}, &a, parts, at(rowsFrom(dst, first, n)))
	})
	return true
}
