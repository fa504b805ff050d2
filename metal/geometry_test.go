package metal_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// operations makes tensors for tests of operations on a backend.
type operations struct {
	*testing.T
	be     *metal.Backend
	random *rand.Rand
}

func (o *operations) weight(t gguf.Type, dims ...int) compute.Weight {
	o.Helper()
	n := 1
	for _, d := range dims {
		n *= d
	}
	bytes, err := t.RowBytes(n)
	require.NoError(o, err)
	data := make([]byte, bytes)
	shape.Randomize(o.random, t, data)
	w, err := o.be.Weight(gguf.Tensor{Name: "random", Type: t, Shape: dims, Data: data})
	require.NoError(o, err)
	return w
}

func (o *operations) buffer(rows, cols int) compute.Tensor {
	o.Helper()
	t, err := o.be.Buffer(rows, cols)
	require.NoError(o, err)
	return t
}

func (o *operations) values(rows, cols int) compute.Tensor {
	o.Helper()
	t := o.buffer(rows, cols)
	for _, row := range o.be.Floats(t) {
		for i := range row {
			row[i] = float32(o.random.NormFloat64())
		}
	}
	return t
}

// bits runs an operation on rows of one sequence and returns a copy of the results. first is the
// position of the first row.
func (o *operations) bits(dst compute.Tensor, first int, op func(compute.Step)) (all []float32) {
	o.Helper()
	for _, row := range o.be.Floats(dst) {
		for i := range row {
			row[i] = 1
		}
	}
	b := modeltest.Batch(make([]int32, dst.Rows), first)
	b.Outputs = nil
	s := o.be.Begin(b)
	op(s)
	require.NoError(o, s.Run())
	for _, row := range o.be.Floats(dst) {
		all = append(all, row...)
	}
	return all
}

// wideTiles are the choices of wide tiles for all kernels that have them.
var wideTiles = metal.Geometry{
	{Kernel: metal.ProductTile, Wide: 1}, {Kernel: metal.GatedTile, Wide: 1}, {Kernel: metal.ExpertGatedTile, Wide: 1}, {Kernel: metal.ExpertDownTile, Wide: 1},
}

// candidatesOf returns the candidates of a kernel, and its choice of wide tiles.
func candidatesOf(kernel string, inputs int) metal.Geometry {
	wide := slices.DeleteFunc(slices.Clone(wideTiles), func(c metal.Choice) bool { return c.Kernel != kernel })
	return append(metal.Candidates(kernel, inputs), wide...)
}

// same runs an operation with every geometry of a kernel and compares the bits. Tiles are used from
// the first row on.
func (o *operations) same(kernel string, inputs int, dst compute.Tensor, first int, op func(compute.Step)) {
	o.Helper()
	require.NoError(o, o.be.Use(nil))
	want := o.bits(dst, first, op)
	candidates := candidatesOf(kernel, inputs)
	require.Greater(o, len(candidates), 1)
	for _, c := range candidates {
		if strings.HasSuffix(kernel, "_tile") {
			c.From = 1
		}
		before := o.be.Counters().Dispatches
		require.NoError(o, o.be.Use(metal.Geometry{c}))
		require.Equal(o, want, o.bits(dst, first, op), "%+v", c)
		require.Greater(o, o.be.Counters().Dispatches, before)
	}
}

// candidates returns all candidates and wide tiles for the types of weights in the tests below or,
// with INGOT_LONG=1, for all types.
func candidates() (list metal.Geometry) {
	all := append(metal.AllCandidates(), wideTiles...)
	if long {
		return all
	}
	for _, c := range all {
		for _, t := range []gguf.Type{gguf.TypeQ40, gguf.TypeQ6K, gguf.TypeF32} {
			c.Type = t.String()
			list = append(list, c)
		}
	}
	return list
}

// TestGeometryChangesNoBits compares the results of every operation with every geometry. The sizes
// are not multiples of a tile's size.
func TestGeometryChangesNoBits(t *testing.T) {
	t.Parallel()
	be := open(t, metal.Options{Geometry: candidates()}, emulator.Options{})
	defer func() { require.NoError(t, be.Close()) }()
	const in, out, heads, nope, latent, dims, experts, used, ffn = 768, 75, 3, 256, 69, 32, 37, 3, 256
	for _, kind := range []gguf.Type{gguf.TypeQ40, gguf.TypeQ6K} {
		t.Run(kind.String(), func(t *testing.T) {
			o := &operations{t, be, rand.New(rand.NewPCG(1, uint64(kind)))}
			w, up := o.weight(kind, in, out), o.weight(kind, in, out)
			kb, vb := o.weight(kind, nope, latent, heads), o.weight(kind, nope, latent, heads)
			router := o.weight(kind, in, experts)
			e := compute.Experts{
				Gate: o.weight(kind, in, ffn, experts), Up: o.weight(kind, in, ffn, experts), Down: o.weight(kind, ffn, out, experts),
				SharedGate: o.weight(kind, in, ffn), SharedUp: o.weight(kind, in, ffn), SharedDown: o.weight(kind, ffn, out),
			}
			rope, err := be.Rope(compute.RopeFreqs{Freqs: make([]float32, dims/2), Scale: 1}, 128)
			require.NoError(t, err)
			const maxRows = 70
			x, q, h, dst := o.values(maxRows, in), o.values(maxRows, heads*(nope+dims)), o.values(maxRows, (used+1)*ffn), o.buffer(maxRows, 1024)
			few := map[string]map[int][]int{ // for each kernel and its number of inputs: numbers of rows for which it is used
				metal.Product: {1: {1}, 2: {2}, 4: {3}, 8: {7}}, metal.GatedProduct: {1: {1}, 2: {2}, 4: {3}, 8: {7}}, metal.Absorb: {1: {1}, 8: {6}},
				metal.GatedExperts: {1: {1}, 2: {9}, 4: {30}}, metal.ExpertsDown: {2: {9}, 4: {30}}, metal.ExpertsAdd: {1: {1}},
				metal.ProductTile: {0: {1, 70}}, metal.GatedTile: {0: {33}}, metal.ExpertGatedTile: {0: {45}}, metal.ExpertDownTile: {0: {45}},
			}
			route := compute.RouteShape{Experts: experts, Used: used, Gating: compute.GatingSigmoid, Normalise: true, Scale: 1}
			routing := o.buffer(maxRows, 2*used)
			o.bits(routing, 0, func(s compute.Step) { s.Route(routing, x, router, nil, route) })
			for kernel, rows := range few {
				for inputs, list := range rows {
					for _, n := range list {
						dst := dst.Head(n)
						o.same(kernel, inputs, dst, 0, map[string]func(compute.Step){
							metal.Product: func(s compute.Step) { s.MatMul(dst.Slice(0, 2*out), x, w, up); s.MatMulAdd(dst.Slice(0, out), x, up) },
							metal.ProductTile: func(s compute.Step) {
								s.MatMul(dst.Slice(0, 2*out), x, w, up)
								s.Expand(dst.Slice(300, heads*latent), q, vb)
							},
							metal.GatedProduct:    func(s compute.Step) { s.GatedMatMul(dst.Slice(0, out), x, w, up, compute.SiLU) },
							metal.GatedTile:       func(s compute.Step) { s.GatedMatMul(dst.Slice(0, out), x, w, up, compute.SiLU) },
							metal.Absorb:          func(s compute.Step) { s.Absorb(dst.Slice(0, heads*(latent+dims)), q, kb, rope) },
							metal.GatedExperts:    func(s compute.Step) { s.GatedExperts(dst, x, routing.Head(n), e) },
							metal.ExpertGatedTile: func(s compute.Step) { s.GatedExperts(dst, x, routing.Head(n), e) },
							metal.ExpertsDown:     func(s compute.Step) { s.ExpertsAdd(dst.Slice(0, out), h, routing.Head(n), e) },
							metal.ExpertsAdd:      func(s compute.Step) { s.ExpertsAdd(dst.Slice(0, out), h, routing.Head(n), e) },
							metal.ExpertDownTile:  func(s compute.Step) { s.ExpertsAdd(dst.Slice(0, out), h, routing.Head(n), e) },
						}[kernel])
					}
				}
			}
		})
	}
}

// TestWideTilesChecked computes products in wide tiles with checked memory, and with fibres in a
// random order.
func TestWideTilesChecked(t *testing.T) {
	if raced { // a shuffled order of fibres changes no Go code
		t.Skip("the race detector finds nothing more")
	}
	t.Parallel()
	wide := slices.Clone(wideTiles)
	for i := range wide {
		wide[i].From, wide[i].Type = 1, gguf.TypeQ40.String()
	}
	be := open(t, metal.Options{Mode: metal.Debug, Geometry: wide}, emulator.Options{Seed: 3})
	defer func() { require.NoError(t, be.Close()) }()
	const rows, in, out, experts, used, ffn = 66, 160, 75, 2, 1, 96 // strands of one chunk or two, and two tiles of rows
	o := &operations{t, be, rand.New(rand.NewPCG(1, 2))}
	w, up := o.weight(gguf.TypeQ40, in, out), o.weight(gguf.TypeQ40, in, out)
	e := compute.Experts{Gate: o.weight(gguf.TypeQ40, in, ffn, experts), Up: o.weight(gguf.TypeQ40, in, ffn, experts), Down: o.weight(gguf.TypeQ40, ffn, out, experts)}
	x, h, routing := o.values(rows, in), o.values(rows, used*ffn), o.buffer(rows, 2*used)
	for i, row := range be.Floats(routing) {
		row[0], row[1] = float32(i/60), 1 // 60 and 6 choices
	}
	for _, c := range []struct {
		dst compute.Tensor
		op  func(s compute.Step, dst compute.Tensor)
	}{
		{o.buffer(rows, out), func(s compute.Step, dst compute.Tensor) { s.MatMulAdd(dst, x, w) }},
		{o.buffer(rows, out), func(s compute.Step, dst compute.Tensor) { s.GatedMatMul(dst, x, w, up, compute.SiLU) }},
		{o.buffer(rows, used*ffn), func(s compute.Step, dst compute.Tensor) { s.GatedExperts(dst, x, routing, e) }},
		{o.buffer(rows, out), func(s compute.Step, dst compute.Tensor) { s.ExpertsAdd(dst, h, routing, e) }},
	} {
		require.NoError(t, be.Use(nil))
		want := o.bits(c.dst, 0, func(s compute.Step) { c.op(s, c.dst) })
		require.NoError(t, be.Use(wide))
		require.Equal(t, want, o.bits(c.dst, 0, func(s compute.Step) { c.op(s, c.dst) }))
	}
}

// TestGeometryOfAttentionChangesNoBits does the same for attention. It covers one, two and four
// query heads per key head, several numbers of splits, several minimum numbers of positions for a
// split, and several minimum numbers of rows for tiles.
func TestGeometryOfAttentionChangesNoBits(t *testing.T) {
	t.Parallel()
	be := open(t, metal.Options{Geometry: candidates()}, emulator.Options{})
	defer func() { require.NoError(t, be.Close()) }()
	o := &operations{t, be, rand.New(rand.NewPCG(1, 2))}
	const positions = 600
	for _, c := range []struct{ heads, kvHeads, key, value int }{{4, 4, 40, 40}, {6, 3, 64, 48}, {8, 2, 64, 64}, {4, 1, 160, 130}} {
		shape := compute.AttentionShape{Heads: c.heads, KVHeads: c.kvHeads, KeyDim: c.key, ValueDim: c.value, Scale: 0.1}
		cache, err := be.Cache(compute.CacheShape{
			Layers: 1, Pages: modeltest.Limits.Pages, PageSize: modeltest.Limits.PageSize, KeyCols: c.kvHeads * c.key, ValueCols: c.kvHeads * c.value, Type: gguf.TypeF16,
		})
		require.NoError(t, err)
		rope, err := be.Rope(compute.RopeFreqs{Freqs: []float32{0.3, 0.01}, Scale: 1}, positions)
		require.NoError(t, err)
		qkv := o.values(positions, c.heads*c.key+c.kvHeads*(c.key+c.value))
		o.bits(o.buffer(positions, 1), 0, func(s compute.Step) { s.RopeStore(qkv, compute.Projection{}, shape, rope, cache, 0) })
		dst := o.buffer(12, c.heads*c.value)
		for _, rows := range []int{1, 12} {
			attend := func(s compute.Step) { s.Attention(dst.Head(rows), qkv.Head(rows), shape, cache, 0) }
			o.same(metal.Attention, 0, dst.Head(rows), positions-rows, attend)
			require.NoError(t, be.Use(nil))
			want := o.bits(dst.Head(rows), positions-rows, attend)
			for _, g := range []metal.Geometry{
				{{Kernel: metal.Attention, From: 1000}, {Kernel: metal.AttentionTile, From: 100}},
				{{Kernel: metal.Attention, In: c.key, Out: c.value, Rows: 1, From: 1}, {Kernel: metal.AttentionTile, Type: "F16", Rows: 16, From: 1}},
				{{Kernel: metal.AttentionTile, Rows: 32, From: 1}},
			} {
				require.NoError(t, be.Use(g))
				require.Equal(t, want, o.bits(dst.Head(rows), positions-rows, attend), "%+v, %d rows, %+v", c, rows, g)
			}
		}
	}
}

// TestDefaultGeometry checks that every kernel has a complete choice.
func TestDefaultGeometry(t *testing.T) {
	g := metal.DefaultGeometry()
	for _, c := range metal.AllCandidates() {
		i := slices.IndexFunc(g, func(d metal.Choice) bool {
			return d.Kernel == c.Kernel && (d.Inputs == c.Inputs || c.Simdgroups == 0) && d.Device+d.Type == "" && d.In == 0
		})
		require.GreaterOrEqual(t, i, 0, "%+v", c)
		require.Positive(t, g[i].Rows)
		require.Equal(t, c.Simdgroups > 0, g[i].Simdgroups > 0)
	}
	for _, c := range g {
		require.Zero(t, c.Microseconds, "a default choice was not measured on any device")
	}
}

// TestGeometryFile checks that the order of choices does not change the written bytes, and that
// they can be read back.
func TestGeometryFile(t *testing.T) {
	t.Parallel()
	g := metal.Geometry{
		{Device: "Apple9", Kernel: metal.Product, Type: "Q4_0", In: 2048, Out: 8192, Inputs: 1, Rows: 2, Simdgroups: 4, Microseconds: 12.5},
		{Device: "Apple9", Kernel: metal.Product, Type: "Q4_0", In: 2048, Out: 8192, Inputs: 2, Rows: 2, Simdgroups: 8},
		{Kernel: metal.ProductTile, From: 12, Rows: 64, Inputs: 32},
	}
	var text, again bytes.Buffer
	require.NoError(t, g.Write(&text))
	slices.Reverse(g)
	require.NoError(t, g.Write(&again))
	require.Equal(t, text.String(), again.String())
	back, err := metal.ReadGeometry(&text)
	require.NoError(t, err)
	require.ElementsMatch(t, g, back)

	merged := g.With(metal.Geometry{{Kernel: metal.ProductTile, From: 20, Rows: 32, Inputs: 16}, {Kernel: metal.ProductTile, Type: "F16", From: 2}})
	require.Len(t, merged, 4)
	require.Contains(t, merged, metal.Choice{Kernel: metal.ProductTile, From: 20, Rows: 32, Inputs: 16})
}

func TestGeometryRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: "read a geometry: ", `[] 1`: "more data after the list", `[{"kernel":"product","lanes":3}]`: "lanes",
		`[{"kernel":"expert_down_tile","from":4,"tiles":4}]`: "tiles and wide_tiles do not apply", `[{"kernel":"expert_gated_tile","wide":4,"wide_tiles":4}]`: "tiles and wide_tiles do not apply",
		`[{"kernel":"attention"},{"kernel":"gemm"}]`:            `choice 2: kernel "gemm" has no geometry`,
		`[{"kernel":"product","inputs":1,"rows":3}]`:            "product: rows is 3, but must be left out or one of [1 2 4]",
		`[{"kernel":"product","inputs":3}]`:                     "product: inputs is 3, but no kernel processes this number",
		`[{"kernel":"product","rows":4}]`:                       "product: inputs is 0, but no kernel processes this number",
		`[{"kernel":"product","inputs":1,"simdgroups":64}]`:     "simdgroups is 64",
		`[{"kernel":"product_tile","simdgroups":4}]`:            "product_tile: simdgroups does not apply to this kernel: leave it out",
		`[{"kernel":"product","inputs":1,"from":4}]`:            "from does not apply",
		`[{"kernel":"product_tile","rows":64,"inputs":96}]`:     "inputs is 96",
		`[{"kernel":"product_tile","type":"IQ9_S","from":3}]`:   `type "IQ9_S"`,
		`[{"kernel":"product_tile","in":32,"from":3}]`:          "in is 32, out is 0",
		`[{"kernel":"attention_tile","rows":2}]`:                "attention_tile: rows is 2, but must be left out or one of [16 32]",
		`[{"kernel":"attention","simdgroups":4}]`:               "attention: simdgroups does not apply to this kernel: leave it out",
		`[{"kernel":"absorb","inputs":1,"simdgroups":-1}]`:      "simdgroups is -1",
		`[{"kernel":"product_tile","tiles":4}]`:                 "tiles is 4, but it must not be negative, and only choices for tiles with from",
		`[{"kernel":"attention","from":4,"tiles":4}]`:           "tiles is 4",
		`[{"kernel":"product","inputs":1,"wide":4}]`:            "product: wide does not apply to this kernel",
		`[{"kernel":"gated_tile","wide":-1}]`:                   "wide is -1",
		`[{"kernel":"gated_tile","wide_tiles":4}]`:              "wide_tiles is 4, but it must not be negative, and only choices with wide",
		`[{"kernel":"expert_down_tile","inputs":64}]`:           "inputs is 64",
		`[{"kernel":"product","inputs":1,"simdgroups":999999}]`: "simdgroups is 999999",
	} {
		_, err := metal.ReadGeometry(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

// narrow is an emulator that allows only a few threads per threadgroup of products.
type narrow struct {
	*emulator.Device
	maxThreads int // the largest number of threads that was dispatched
	products   map[metal.Pipeline]bool
}

func (n *narrow) Pipeline(lib metal.Library, function string, constants []metal.Constant) (metal.Pipeline, error) {
	p, err := n.Device.Pipeline(lib, function, constants)
	n.products[p] = strings.HasPrefix(function, "product")
	return p, err
}

func (n *narrow) PipelineInfo(p metal.Pipeline) metal.PipelineInfo {
	i := n.Device.PipelineInfo(p)
	if n.products[p] {
		i.MaxThreads = 128
	}
	return i
}

func (n *narrow) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	for i := range work {
		n.maxThreads = max(n.maxThreads, work[i].Threads[0])
	}
	return n.Device.Submit(work)
}

// TestGeometryOfDevice checks that the most specific choice for the device wins, limited to the
// number of threads that the device allows.
func TestGeometryOfDevice(t *testing.T) {
	require.NoError(t, open(t, metal.Options{}, emulator.Options{}).Close()) // skips the test if there is no compiler
	dev, err := emulator.Open(emulator.Options{})
	require.NoError(t, err)
	device := &narrow{Device: dev, products: map[metal.Pipeline]bool{}}
	be, err := metal.New(device, metal.Options{Geometry: candidates()})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	o := &operations{t, be, rand.New(rand.NewPCG(1, 2))}

	require.NoError(t, be.Use(metal.Geometry{
		{Device: "Apple9", Kernel: metal.Absorb, Type: "F32", In: 64, Out: 40, Inputs: 1, Rows: 1},
		{Kernel: metal.Absorb, Type: "F32", In: 64, Out: 40, Inputs: 1, Simdgroups: 4},
		{Kernel: metal.Absorb, Type: "F32", In: 64, Out: 41, Inputs: 1, Simdgroups: 8},
		{Device: "emulator", Kernel: metal.Absorb, Inputs: 1, Simdgroups: 8},
		{Kernel: metal.Absorb, Type: "F32", Inputs: 1, Rows: 1},
		{Kernel: metal.Product, Inputs: 8, Simdgroups: 8}, {Kernel: metal.ProductTile, From: 9, Rows: 64, Inputs: 16},
	}))
	require.Equal(t, metal.Choice{Device: "emulator", Kernel: metal.Absorb, Type: "F32", In: 64, Out: 40, Inputs: 1, Rows: 1, Simdgroups: 4},
		be.Choice(metal.Absorb, gguf.TypeF32, 64, 40, 1))
	require.Equal(t, 8, be.Choice(metal.Absorb, gguf.TypeF16, 64, 40, 1).Simdgroups)

	w, x, dst := o.weight(gguf.TypeF32, 64, 40), o.values(70, 64), o.buffer(70, 40)
	device.maxThreads = 0
	route := compute.RouteShape{Experts: 40, Used: 2, Gating: compute.GatingSigmoid}
	o.bits(dst.Head(1), 0, func(s compute.Step) { s.Route(dst.Head(1).Slice(0, 4), x, w, nil, route) })
	few := o.bits(dst.Head(8), 0, func(s compute.Step) { s.MatMul(dst.Head(8), x, w) })
	many := o.bits(dst, 0, func(s compute.Step) { s.MatMul(dst, x, w) })
	require.Equal(t, few, many[:len(few)])
	require.Equal(t, 128, device.maxThreads)
}
