package metal_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
)

// recordOnly is a device with NVIDIA's kernels that only lists the kernels of a step, so it needs
// no GPU.
type recordOnly struct {
	metal.Device // nil; the backend calls only the methods below
	names        []string
	step         []string // kernels of the last submission
	buffers      int
	tickets      metal.Ticket
}

func (d *recordOnly) Info() metal.Info {
	return metal.Info{Driver: "cuda", Memory: 1 << 40, MaxBuffer: 1 << 40, MaxThreadgroup: 1024, ThreadgroupMemory: 227 << 10, NvidiaKernels: true}
}
func (d *recordOnly) Compile(metal.Source, metal.Mode) (metal.Library, error) { return 1, nil }
func (d *recordOnly) Pipeline(_ metal.Library, function string, _ []metal.Constant) (metal.Pipeline, error) {
	d.names = append(d.names, function)
	return metal.Pipeline(len(d.names)), nil
}

func (d *recordOnly) PipelineInfo(metal.Pipeline) metal.PipelineInfo {
	return metal.PipelineInfo{MaxThreads: 1024, SimdWidth: 32}
}

func (d *recordOnly) NewBuffer(int, metal.Storage) (metal.Buffer, error) {
	d.buffers++
	return metal.Buffer(d.buffers), nil
}
func (d *recordOnly) FreeBuffer(metal.Buffer)                {}
func (d *recordOnly) Memory() int                            { return 0 }
func (d *recordOnly) Upload(metal.Buffer, int, []byte) error { return nil }
func (d *recordOnly) Read([]byte, metal.Buffer, int) error   { return nil }
func (d *recordOnly) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	d.step = d.step[:0]
	for i := range work {
		d.step = append(d.step, d.names[work[i].Pipeline-1])
	}
	d.tickets++
	return d.tickets, nil
}
func (d *recordOnly) Wait(metal.Ticket) (metal.Timing, error) { return metal.Timing{}, nil }
func (d *recordOnly) Close() error                            { return nil }

// TestNvidiaDispatches checks the number of dispatches of a step with NVIDIA's kernels. With one
// row, a kernel also computes the operation before its own; with 12 rows, it quantises its own
// result. A step makes no buffers and allocates
// nothing.
func TestNvidiaDispatches(t *testing.T) {
	for _, c := range []struct {
		path      string
		one, many int // dispatches of a step with 1 and with 12 rows
	}{
		{"../models/tiny-glm.q8_0.gguf", 48, 97},
		{"../models/tiny-llama.q4_0.gguf", 28, 41},
	} {
		t.Run(filepath.Base(c.path), func(t *testing.T) {
			d := &recordOnly{}
			be, err := metal.New(d, metal.Options{})
			require.NoError(t, err)
			f, err := gguf.Open(c.path)
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			limits := modeltest.Limits
			limits.KV = gguf.TypeF16
			m, err := model.Load(be, f, limits)
			require.NoError(t, err)
			for rows, want := range map[int]int{1: c.one, 12: c.many} {
				b := modeltest.Batch(make([]int32, rows), 300)
				_, err := m.Forward(b)
				require.NoError(t, err)
				require.Len(t, d.step, want, "%d rows", rows)
				made := d.buffers
				if !raced {
					require.Zero(t, testing.AllocsPerRun(20, func() {
						if _, err := m.Forward(b); err != nil {
							panic(err)
						}
					}))
				}
				require.Equal(t, made, d.buffers)
			}
		})
	}
}

// TestNvidiaSharedKernels lists the kernels of operations on one row. A kernel that also computes
// an RMSNorm replaces the row of which another kernel had quantised the values before, so the next
// product must not use these values.
func TestNvidiaSharedKernels(t *testing.T) {
	d := &recordOnly{}
	be, err := metal.New(d, metal.Options{})
	require.NoError(t, err)
	const n, rows = 256, 1 << 14 // so many rows of weights that their kernel does not make the row itself
	weight := func(kind gguf.Type, out int) compute.Weight {
		w, err := be.Weight(gguf.Tensor{Name: "w", Type: kind, Shape: []int{n, out}, Data: make([]byte, n*out/kind.BlockSize()*kind.BlockBytes())})
		require.NoError(t, err)
		return w
	}
	many, err := be.Buffer(1, rows)
	require.NoError(t, err)
	buffer := func() compute.Tensor {
		b, err := be.Buffer(1, 2*n)
		require.NoError(t, err)
		return b.Slice(0, n)
	}
	gain, err := be.Weight(gguf.Tensor{Name: "gain", Type: gguf.TypeF32, Shape: []int{n}, Data: make([]byte, 4*n)})
	require.NoError(t, err)
	q40, q80, wide := weight(gguf.TypeQ40, n), weight(gguf.TypeQ80, n), weight(gguf.TypeQ40, rows)
	h, x, y := buffer(), buffer(), buffer()
	for _, c := range []struct {
		name string
		op   func(s compute.Step)
		want []string
	}{
		{"a norm and its product share a kernel", func(s compute.Step) {
			s.RMSNorm(x, h, gain, 1e-5)
			s.MatMul(y, x, q40)
		}, []string{"row_product"}},
		{"another operation reads the row", func(s compute.Step) {
			s.RMSNorm(x, h, gain, 1e-5)
			s.SoftCap(x, 2)
			s.MatMul(y, x, q40)
		}, []string{"norm_quantise", "soft_cap", "row_product"}},
		{"a norm and a factor share a kernel", func(s compute.Step) {
			s.RMSNorm(x, h, gain, 1e-5)
			s.Affine(x, 2, nil)
			s.MatMul(y, x, q40)
		}, []string{"norm_chain", "row_product"}},
		{"norms of sums share a kernel", func(s compute.Step) {
			s.RMSNormAdd(y, x, gain, 1e-5)
			s.RMSNormAdd(h, y, gain, 1e-5)
			s.Affine(h, 2, nil)
			s.RMSNorm(x, h, gain, 1e-5)
			s.GatedMatMul(many, x, wide, wide, compute.SiLU)
		}, []string{"norm_chain", "gated_product_1"}},
		{"two sums to the same row", func(s compute.Step) {
			s.RMSNormAdd(h, x, gain, 1e-5)
			s.RMSNormAdd(h, y, gain, 1e-5)
			s.MatMul(y, h, q40)
		}, []string{"norm_quantise", "norm_quantise", "row_product"}},
		{"a product of another row", func(s compute.Step) {
			s.RMSNorm(x, h, gain, 1e-5)
			s.MatMul(y, h, q40)
		}, []string{"norm_quantise", "row_product"}},
		{"the product overwrites what the norm reads", func(s compute.Step) {
			s.RMSNorm(x, h, gain, 1e-5)
			s.MatMul(h, x, q40)
		}, []string{"norm_quantise", "product_8"}},
		{"a norm and its gated product share a kernel", func(s compute.Step) {
			s.RMSNorm(x, h, gain, 1e-5)
			s.GatedMatMul(y, x, q40, q40, compute.SiLU)
		}, []string{"row_gated_product"}},
		{"products of two types after a quantised row", func(s compute.Step) {
			s.RMSNorm(x, h, gain, 1e-5)
			s.GatedMatMul(many, x, wide, wide, compute.SiLU)
			s.RMSNorm(x, h, gain, 1e-5)
			both := y
			both.Cols = 2 * n
			s.MatMul(both, x, q40, q80)
		}, []string{"norm_quantise", "gated_product_1", "row_product", "row_product"}},
	} {
		s := be.Begin(modeltest.Batch([]int32{1}, 0))
		c.op(s)
		require.NoError(t, s.Run())
		require.Equal(t, c.want, d.step, c.name)
	}
}

// zeroWeight returns a weight of zeros.
func zeroWeight(t *testing.T, be *metal.Backend, kind gguf.Type, shape ...int) compute.Weight {
	t.Helper()
	values := 1
	for _, length := range shape {
		values *= length
	}
	w, err := be.Weight(gguf.Tensor{Name: "w", Type: kind, Shape: shape, Data: make([]byte, values/kind.BlockSize()*kind.BlockBytes())})
	require.NoError(t, err)
	return w
}

// TestNvidiaLayers lists the kernels of operations of layers, by the number of rows. The rows are
// generated ones of sequences, unless there is a prompt.
func TestNvidiaLayers(t *testing.T) {
	const n, dim, heads, experts, used, most = 256, 128, 2, 8, 2, 300
	d := &recordOnly{}
	be, err := metal.New(d, metal.Options{})
	require.NoError(t, err)
	weight := func(kind gguf.Type, shape ...int) compute.Weight { return zeroWeight(t, be, kind, shape...) }
	buffer := func(cols int) compute.Tensor {
		b, err := be.Buffer(most, cols)
		require.NoError(t, err)
		return b
	}
	states, err := be.States(compute.StateShape{Layers: 1, Slots: most, ConvRows: 3, ConvCols: 3 * n, Heads: heads, KeyDim: dim, ValueDim: dim, Drafts: 1})
	require.NoError(t, err)
	x, h, in, qkv, gate, y := buffer(n), buffer(n), buffer(4*n), buffer(3*n), buffer(1), buffer(2*n)
	routing, act, out := buffer(2*used), buffer((used+1)*n), weight(gguf.TypeQ40, n, n)
	gain, vector, narrow := weight(gguf.TypeF32, n), weight(gguf.TypeF32, dim), weight(gguf.TypeF32, n, 1)
	delta := compute.Delta{KeyHeads: heads, Decay: vector, Bias: vector}
	matrices := weight(gguf.TypeQ40, n, n, experts)
	e := compute.Experts{Gate: matrices, Up: matrices, Down: matrices, SharedGate: out, SharedUp: out, SharedDown: out}
	recurrent := func(s compute.Step, rows int) {
		o := x.Head(rows)
		s.Convolve(qkv.Head(rows), in.Head(rows).Slice(0, 3*n), weight(gguf.TypeF32, 4*3*n), nil, states, 0)
		s.DeltaNet(o, qkv.Head(rows), in.Head(rows).Slice(0, 2*heads), delta, states, 0)
		s.GatedNorm(o, o, in.Head(rows).Slice(3*n, n), compute.GatedNorm{Gain: vector, Dims: dim})
		s.MatMulAdd(h.Head(rows), o, out)
	}
	mixture := func(s compute.Step, rows int) {
		a := act.Head(rows)
		s.RMSNorm(h.Head(rows), x.Head(rows), gain, 1e-5)
		s.Route(routing.Head(rows), h.Head(rows), weight(gguf.TypeF32, n, experts), nil, compute.RouteShape{Experts: experts, Used: used})
		s.GatedExperts(a, h.Head(rows), routing.Head(rows), e)
		s.MatMul(gate.Head(rows), h.Head(rows), narrow)
		s.Gate(a.Slice(used*n, n), gate.Head(rows))
		s.ExpertsAdd(x.Head(rows), a, routing.Head(rows), e)
	}
	gated := func(s compute.Step, rows int) {
		s.Gate(x.Head(rows), h.Head(rows))
		s.MatMul(y.Head(rows).Slice(0, n), x.Head(rows), out)
	}
	for _, c := range []struct {
		name string
		rows int
		op   func(s compute.Step, rows int)
		seq  compute.Seq
		want []string
	}{
		{"a recurrent layer of a row", 1, recurrent, compute.Seq{Rows: 1}, []string{"convolve_step", "delta_step", "row_product"}},
		{"of a few rows", 3, recurrent, compute.Seq{Rows: 1}, []string{"convolve_step", "delta_step", "product_8"}},
		{"of many rows", 33, recurrent, compute.Seq{Rows: 1}, []string{"convolve_step", "delta_step_128_128", "gated_norm_quantise", "product_32"}},
		{"of prompts", 3, recurrent, compute.Seq{Rows: 1, State: compute.SeqState{From: -1, Prompt: 1}}, []string{"convolve", "delta_prepare", "delta_chunks", "gated_norm_quantise", "product_8"}},
		{"of drafts", 2, recurrent, compute.Seq{Rows: 2, State: compute.SeqState{From: -1, Drafts: 1}}, []string{"convolve", "delta_step_128_128", "gated_norm_quantise", "product_8"}},
		{"experts of a row", 1, mixture, compute.Seq{Rows: 1}, []string{"row_route", "row_gated_experts", "row_experts_few"}},
		{"of a few rows", 3, mixture, compute.Seq{Rows: 1}, []string{"norm_route_2", "choose_rows", "group_choices", "gated_experts_8", "experts_down_8", "weigh_choices"}},
		{"of many rows", 300, mixture, compute.Seq{Rows: 1}, []string{"norm_quantise", "route_many", "choose_rows", "group_choices", "gated_experts_64", "experts_down_64", "weigh_choices"}},
		{"a gate of a row", 1, gated, compute.Seq{Rows: 1}, []string{"sigmoid_gate", "row_product"}},
		{"of a few rows", 3, gated, compute.Seq{Rows: 1}, []string{"gate_rows", "product_8"}},
	} {
		b := modeltest.Batch(make([]int32, c.rows), 0)
		b.Seqs = nil
		for row := 0; row < c.rows; row += c.seq.Rows {
			c.seq.State.Slot = row
			b.Seqs = append(b.Seqs, c.seq)
		}
		s := be.Begin(b)
		c.op(s, c.rows)
		require.NoError(t, s.Run())
		require.Equal(t, c.want, d.step, c.name)
	}
}

// limitedRecord is a recordOnly with another amount of threadgroup memory.
type limitedRecord struct {
	recordOnly
	memory int
}

func (d *limitedRecord) Info() metal.Info {
	info := d.recordOnly.Info()
	info.ThreadgroupMemory = d.memory
	return info
}

// TestNvidiaProductsByWork lists the kernels of products by the rows of weights and of activations.
// A tile is used if there is work for enough of its threadgroups, and a kernel only if the device
// has enough threadgroup memory for it.
func TestNvidiaProductsByWork(t *testing.T) {
	const in, large, small = 32, 227 << 10, 99 << 10 // threadgroup memory of an H100 and of an RTX 40
	for _, c := range []struct {
		out, rows, memory int
		product, gated    string
	}{
		{4096, 9, large, "product_16", "gated_product_16"},
		{4096, 33, large, "product_32", "gated_product_64"},
		{4096, 192, large, "product_32", "gated_product_64"},
		{4096, 193, large, "product_tile_short", "gated_product_tile"},
		{4096, 448, large, "product_tile_short", "gated_product_tile"},
		{4096, 449, large, "product_tile", "gated_product_tile"},
		{16320, 64, large, "product_32", "gated_product_64"},
		{16384, 32, large, "product_32", "gated_product_32"},
		{16384, 33, large, "product_tile_short", "gated_product_tile"},
		{32768, 64, large, "product_tile", "gated_product_tile"},
		{4096, 33, small, "product_32", "gated_product_32"},
		{32768, 64, small, "product_tile", "gated_product_tile"},
	} {
		d := &limitedRecord{memory: c.memory}
		be, err := metal.New(d, metal.Options{})
		require.NoError(t, err)
		w, err := be.Weight(gguf.Tensor{Name: "w", Type: gguf.TypeQ40, Shape: []int{in, c.out}, Data: make([]byte, c.out*18)})
		require.NoError(t, err)
		x, err := be.Buffer(c.rows, in)
		require.NoError(t, err)
		y, err := be.Buffer(c.rows, c.out)
		require.NoError(t, err)
		s := be.Begin(modeltest.Batch(make([]int32, c.rows), 0))
		s.MatMul(y, x, w)
		s.GatedMatMul(y, x, w, w, compute.SiLU)
		require.NoError(t, s.Run())
		require.Equal(t, []string{"quantise_rows", c.product, c.gated}, d.step, "%d rows of weights, %d of activations", c.out, c.rows)
	}
}

// TestNvidiaQuantisesChangedRows lists the kernels of two products of the same rows. Between them,
// an operation writes to the rows or to another tensor. The second product may use the quantised
// values of the first one only if the rows have not changed.
func TestNvidiaQuantisesChangedRows(t *testing.T) {
	for name, g := range map[string]metal.Geometry{"few": nil, "tiles": tilesFrom(2)} {
		t.Run(name, func(t *testing.T) { quantisesChangedRows(t, g) })
	}
}

// recordZeros is a recordOnly whose buffers hold zeros, so that all kernels agree and none has to
// avoid simdgroup matrices.
type recordZeros struct{ recordOnly }

func (*recordZeros) Read(dst []byte, _ metal.Buffer, _ int) error {
	clear(dst)
	return nil
}

func quantisesChangedRows(t *testing.T, g metal.Geometry) {
	t.Helper()
	d := &recordZeros{}
	be, err := metal.New(d, metal.Options{Geometry: g})
	require.NoError(t, err)
	const n, heads, dim = 256, 4, 64
	weight := func(kind gguf.Type, shape ...int) compute.Weight { return zeroWeight(t, be, kind, shape...) }
	buffer := func() compute.Tensor {
		b, err := be.Buffer(2, 4*n)
		require.NoError(t, err)
		return b.Slice(0, n)
	}
	cols := func(t compute.Tensor, n int) compute.Tensor { return t.Slice(0, n) }
	rope, err := be.Rope(compute.RopeFreqs{Freqs: make([]float32, dim/2), Scale: 1}, 64)
	require.NoError(t, err)
	cache := func(keys, values int, kind gguf.Type) compute.Cache {
		c, err := be.Cache(compute.CacheShape{Layers: 1, Pages: 64, PageSize: 16, KeyCols: keys, ValueCols: values, Type: kind})
		require.NoError(t, err)
		return c
	}
	x, h, routing := buffer(), buffer(), buffer()
	routing = cols(routing, 4)
	gain, router := weight(gguf.TypeF32, n), weight(gguf.TypeF32, n, 8)
	shape := compute.AttentionShape{Heads: heads, KVHeads: heads, KeyDim: dim, ValueDim: dim, Scale: 1}
	route := compute.RouteShape{Experts: 8, Used: 2, Gating: compute.GatingSoftmax}
	type operation func(s compute.Step, dst compute.Tensor)
	ops := map[string]operation{
		"RMSNormAdd": func(s compute.Step, dst compute.Tensor) { s.RMSNormAdd(dst, h, gain, 1e-5) },
		"Affine":     func(s compute.Step, dst compute.Tensor) { s.Affine(dst, 2, nil) },
		"Gather":     func(s compute.Step, dst compute.Tensor) { s.Gather(dst, h, []int32{0, 0}[:dst.Rows]) },
		"Route":      func(s compute.Step, dst compute.Tensor) { s.Route(cols(dst, 4), h, router, nil, route) },
		"Top":        func(s compute.Step, dst compute.Tensor) { s.Top(cols(dst, 3), h, 1) },
		"Top 2":      func(s compute.Step, dst compute.Tensor) { s.Top(cols(dst, 5), h, 2) },
	}
	for _, kv := range []gguf.Type{gguf.TypeF16, gguf.TypeQ80} {
		c, latent := cache(n, n, kv), cache(n+dim, 0, kv)
		ops["RopeStore "+kv.String()] = func(s compute.Step, dst compute.Tensor) {
			s.RopeStore(cols(dst, 3*n), compute.Projection{}, shape, rope, c, 0)
		}
		ops["Attention "+kv.String()] = func(s compute.Step, dst compute.Tensor) { s.Attention(dst, h, shape, c, 0) }
		ops["Latents "+kv.String()] = func(s compute.Step, dst compute.Tensor) {
			s.Latents(compute.Tensor{}, cols(dst, n+dim), nil, gain, 1e-5, rope, latent, 0)
		}
	}
	for _, kind := range []gguf.Type{gguf.TypeF32, gguf.TypeQ40} {
		w, heads, experts := weight(kind, n, n), weight(kind, 64, 64, 4), weight(kind, n, n, 8)
		e := compute.Experts{Gate: experts, Up: experts, Down: experts}
		wide := cols(h, 2*n)
		for name, op := range map[string]operation{
			"Embed":        func(s compute.Step, dst compute.Tensor) { s.Embed(dst, w) },
			"MatMul":       func(s compute.Step, dst compute.Tensor) { s.MatMul(dst, h, w) },
			"MatMulAdd":    func(s compute.Step, dst compute.Tensor) { s.MatMulAdd(dst, h, w) },
			"GatedMatMul":  func(s compute.Step, dst compute.Tensor) { s.GatedMatMul(dst, h, w, w, compute.GELU) },
			"Absorb":       func(s compute.Step, dst compute.Tensor) { s.Absorb(cols(dst, 2*n), wide, heads, rope) },
			"Expand":       func(s compute.Step, dst compute.Tensor) { s.Expand(dst, h, heads) },
			"GatedExperts": func(s compute.Step, dst compute.Tensor) { s.GatedExperts(cols(dst, 2*n), h, routing, e) },
			"ExpertsAdd":   func(s compute.Step, dst compute.Tensor) { s.ExpertsAdd(dst, wide, routing, e) },
		} {
			ops[name+" "+kind.String()] = op
		}
	}
	const wide = 1 << 14 // so many rows of weights that their kernel does not quantise a row itself
	q40, other := weight(gguf.TypeQ40, n, wide), buffer()
	many, err := be.Buffer(2, wide)
	require.NoError(t, err)
	for name, op := range ops {
		for rows := range 2 {
			last := func(op operation, dst compute.Tensor) string {
				s := be.Begin(modeltest.Batch(make([]int32, rows+1), 0))
				s.GatedMatMul(many.Head(rows+1), x.Head(rows+1), q40, q40, compute.SiLU)
				op(s, dst.Head(rows+1))
				s.GatedMatMul(many.Head(rows+1), x.Head(rows+1), q40, q40, compute.SiLU)
				require.NoError(t, s.Run())
				require.Regexp(t, "^gated_product_", d.step[len(d.step)-1])
				return d.step[len(d.step)-2]
			}
			require.Equal(t, "quantise_rows", last(op, x), "%s of %d rows", name, rows+1)
			require.NotEqual(t, "quantise_rows", last(func(s compute.Step, _ compute.Tensor) {
				s.Affine(other.Head(rows+1), 2, nil)
			}, x), "the rows have not changed")
		}
	}
}
