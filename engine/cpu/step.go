package cpu

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
)

// step implements compute.Step. A backend has one step and reuses it for every batch. The tasks are
// fields, so that their memory is reused: once their slices are large enough, a step allocates
// nothing.
type step struct {
	*Backend
	batch *compute.Batch
	seqOf []int32 // [rows] index of each row's sequence

	blocks    []byte              // quantised activations, in blocks of products.BlockBytes or tiles of products.TileBytes
	words     []kernels.WordBlock // quantised activations for weights of 16 bits
	quantiser quantiser
	product   product
	gated     gated
	experts   experts
	probs     compute.Tensor // [rows, experts] the routers' probabilities
	attention attention
	convolve  convolve
	delta     delta
	scan      scan
	byRow     rowsTask
	ones      []float32 // gains of norms without a gain
}

func (s *step) begin(b *Backend) {
	s.Backend = b
	s.convolve.step, s.delta.step, s.scan.step = s, s, s
	s.quantiser.step, s.product.step, s.gated.step, s.experts.step, s.attention.step, s.byRow.step = s, s, s, s, s, s
}

// Begin implements compute.Backend.
func (b *Backend) Begin(batch *compute.Batch) compute.Step {
	if b.shards.takes(batch) {
		b.shards.begin(batch)
		return b.shards
	}
	b.step.start(batch)
	return &b.step
}

func (s *step) start(batch *compute.Batch) {
	s.batch = batch
	s.seqOf = s.seqOf[:0]
	for i, seq := range batch.Seqs {
		for range seq.Rows {
			s.seqOf = append(s.seqOf, int32(i))
		}
	}
}

// slot returns where a group of layers stores the position of row r: the page, and the slot in this
// page.
func (s *step) slot(c *cache, group, r int) (page int32, slot int) {
	position, size := int(s.batch.Positions[r]), c.shape.PageSize
	return s.batch.Seqs[s.seqOf[r]].Table(group)[position/size], position % size
}

// Submit implements compute.Step. All operations have run already.
func (s *step) Submit() error { return nil }

// Run implements compute.Step. All operations have run already.
func (s *step) Run() error { return nil }

func (s *step) token(r int) int {
	if s.batch.From.Buffer != nil {
		return int(row(s.batch.From, r)[0])
	}
	return int(s.batch.Tokens[r])
}

// rowsTask is the task of operations that compute each row independently. A part has a few rows.
type rowsTask struct {
	step *step
	do   func(t *rowsTask, thread, r int) // computes row r
	n    int                              // number of rows
	each int                              // number of rows per part

	dst, src  compute.Tensor
	gain      []float32
	second    []float32
	bias      []float32
	eps       float32
	scale     float32
	table     *weight
	rope      *rope
	cache     *cache
	group     int // group of layers
	keys      []byte
	values    []byte // the layer's keys and values; see cache.at
	shape     compute.AttentionShape
	outStride int
	inStride  int
	route     compute.RouteShape
	gatedNorm compute.GatedNorm
	other     compute.Tensor
	best      int // number of values for Top
	draws     []compute.Draw

	gateTensor, upTensor      compute.Tensor
	activation                compute.Activation
	valueNorm, valuesFromKeys bool
}

// An operation over fewer than soloValues values stays on one thread. A part of a larger operation
// has about partValues values.
const (
	soloValues = 4096
	partValues = 8192
)

func (b *Backend) rowsEach(n, values int) int {
	threads := len(b.scratch)
	if threads == 1 || n*values < soloValues {
		return max(n, 1)
	}
	parts := max(threads, min(n*values/partValues, shareParts*threads))
	return max(1, (n+parts-1)/parts)
}

// run calls do for rows 0 to n-1. rowValues is the approximate number of values of a row, from
// which run estimates the cost.
func (t *rowsTask) run(do func(t *rowsTask, thread, r int), n, rowValues int) {
	t.do, t.n, t.each = do, n, t.step.rowsEach(n, rowValues)
	t.step.pool.do(t, (n+t.each-1)/t.each)
}

func (t *rowsTask) part(thread, i int) {
	for r := i * t.each; r < min((i+1)*t.each, t.n); r++ {
		t.do(t, thread, r)
	}
}

func (s *step) Embed(dst compute.Tensor, table compute.Weight) {
	s.byRow.dst, s.byRow.table = dst, table.(*weight)
	s.byRow.run((*rowsTask).embed, dst.Rows, dst.Cols)
}

func (t *rowsTask) embed(_, r int) { t.table.row(row(t.dst, r), t.step.token(r)) }

func (s *step) Gather(dst, src compute.Tensor, rows []int32) {
	for i, r := range rows {
		copy(row(dst, i), row(src, int(r)))
	}
}

func (s *step) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	t := &s.byRow
	t.dst, t.src, t.gain, t.eps = dst, src, gain.(*weight).vector, eps
	t.run((*rowsTask).norm, dst.Rows, len(t.gain))
}

func (t *rowsTask) norm(thread, r int) {
	t.step.norm(thread, row(t.dst, r), row(t.src, r), t.gain, t.eps)
}

func (s *step) RMSNormAdd(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	t := &s.byRow
	t.dst, t.src, t.gain, t.eps = dst, src, gain.(*weight).vector, eps
	t.run((*rowsTask).normAdd, dst.Rows, 2*len(t.gain))
}

func (t *rowsTask) normAdd(thread, r int) {
	m := &t.step.scratch[thread]
	m.normed = grow(m.normed, len(t.gain))
	normed := m.normed[:len(t.gain)]
	t.step.norm(thread, normed, row(t.src, r), t.gain, t.eps)
	addTo(row(t.dst, r), normed)
}

func (s *step) Affine(t compute.Tensor, scale float32, bias compute.Weight) {
	s.byRow.dst, s.byRow.scale, s.byRow.bias = t, scale, vectorOf(bias)
	s.byRow.run((*rowsTask).affine, t.Rows, t.Cols)
}

func (t *rowsTask) affine(_, r int) {
	line := row(t.dst, r)
	switch t.scale {
	case 0:
		clear(line)
	case 1:
	default:
		for i := range line {
			line[i] *= t.scale
		}
	}
	addTo(line, t.bias)
}

// expValues is the number of values that can be copied in the time of an exponential.
const expValues = 16

// capped is the number of values of a row that SoftCap computes in one part, since the rows of
// logits are few and long.
const capped = 4096

func (s *step) SoftCap(t compute.Tensor, limit float32) {
	s.byRow.dst, s.byRow.scale = t, limit
	s.byRow.run((*rowsTask).softCap, t.Rows*((t.Cols+capped-1)/capped), expValues*min(t.Cols, capped))
}

func (t *rowsTask) softCap(thread, i int) {
	each := (t.dst.Cols + capped - 1) / capped
	line := row(t.dst, i/each)[i%each*capped:]
	a := &t.step.scratch[thread].softCap
	a.X, a.N, a.Limit = &line[0], int64(min(len(line), capped)), float64(t.scale)
	t.step.kernels.SoftCap(a)
}

func (s *step) Activate(dst, gate, up compute.Tensor, act compute.Activation) {
	t := &s.byRow
	t.dst, t.gateTensor, t.upTensor, t.activation = dst, gate, up, act
	t.run((*rowsTask).activate, dst.Rows, expValues*dst.Cols)
}

func (t *rowsTask) activate(thread, r int) {
	a := &t.step.scratch[thread].gateBy
	dst, gate, up := row(t.dst, r), row(t.gateTensor, r), row(t.upTensor, r)
	a.Kind, a.Dst, a.Gate, a.Up, a.N = int64(t.activation), &dst[0], &gate[0], &up[0], int64(len(dst))
	t.step.kernels.Gate(a)
}

func addTo(dst, v []float32) {
	for i, x := range v {
		dst[i] += x
	}
}

func vectorOf(w compute.Weight) []float32 {
	if w == nil {
		return nil
	}
	return w.(*weight).vector
}

func (s *step) Checkpoint(layer int, stage string, t compute.Tensor) {
	if s.batch.Trace != nil {
		s.batch.Report(layer, stage, s.Floats(t))
	}
}
