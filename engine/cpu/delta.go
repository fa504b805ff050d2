package cpu

import (
	"math"
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
)

// delta is the task of DeltaNet. A part is one head of one sequence.
type delta struct {
	step            *step
	dst, qkv, gates compute.Tensor
	settings        compute.Delta
	decay, bias     []float32
	states          *states
	layer           *stateLayer
	first           []int // [sequences] index of the sequence's first row
}

// chunk is one thread's memory for the rows of a chunk.
type chunk struct {
	q, k, keys    []float32 // [rows, KeyDim]; keys is k transposed and scaled, [KeyDim, rows]
	u             []float32 // [rows, ValueDim]
	scores        []float32 // [rows, rows]
	beta          []float32 // [rows]
	before        []float32 // [KeyDim, ValueDim] the matrix before drafts; made when it is needed
	sums          []float64 // [rows] G of the rows
	atKey, atU    []int64   // indices where rows of KeyDim and of ValueDim values start
	atDst         []int64   // indices in the result where the rows' heads start
	atRow         []int64   // indices where a matrix's rows start
	keyed, valued int       // KeyDim and ValueDim for which the memory was made
}

// chunkValues returns the approximate number of values that a chunk has.
func chunkValues(keyDim, valueDim int) int {
	return compute.ChunkRows*(3*keyDim+valueDim+compute.ChunkRows+9) + keyDim*(valueDim+2)
}

func (c *chunk) reserve(keyDim, valueDim int) {
	if c.keyed == keyDim && c.valued == valueDim {
		return
	}
	const n = compute.ChunkRows
	*c = chunk{
		q: make([]float32, n*keyDim), k: make([]float32, n*keyDim), keys: make([]float32, n*keyDim),
		u: make([]float32, n*valueDim), scores: make([]float32, n*n), beta: make([]float32, n), sums: make([]float64, n),
		atKey: make([]int64, n), atU: make([]int64, n), atDst: make([]int64, n), atRow: make([]int64, keyDim),
		keyed: keyDim, valued: valueDim,
	}
	for i := range c.atKey {
		c.atKey[i], c.atU[i] = int64(i*keyDim), int64(i*valueDim)
	}
	for i := range c.atRow {
		c.atRow[i] = int64(i * valueDim)
	}
}

func (s *step) DeltaNet(dst, qkv, gates compute.Tensor, d compute.Delta, st compute.States, layer int) {
	t := &s.delta
	t.dst, t.qkv, t.gates, t.settings = dst, qkv, gates, d
	t.decay, t.bias = d.Decay.(*weight).vector, d.Bias.(*weight).vector
	t.states = st.(*states)
	t.layer = &t.states.layers[layer]
	t.first = firstRows(t.first, s.batch.Seqs)
	shape := t.states.shape
	for i := range s.scratch {
		s.scratch[i].chunk.reserve(shape.KeyDim, shape.ValueDim)
	}
	s.pool.do(t, shape.Heads*len(s.batch.Seqs))
}

func (t *delta) part(thread, i int) {
	shape := t.states.shape
	seq, head := i/shape.Heads, i%shape.Heads
	h := deltaHead{
		delta: t, thread: thread, head: head, keyHead: t.settings.KeyHead(head, shape.Heads),
		seq: &t.step.batch.Seqs[seq], first: t.first[seq], memory: &t.step.scratch[thread].chunk,
	}
	h.s = h.matrix(h.seq.State.Slot)
	h.begin()
	h.rows()
}

// deltaHead computes one head of one sequence.
type deltaHead struct {
	*delta
	thread, head, keyHead int
	seq                   *compute.Seq
	first                 int // index of the sequence's first row
	memory                *chunk
	s                     []float32 // [KeyDim, ValueDim] the head's matrix in the sequence's slot
}

func (h *deltaHead) matrix(slot int) []float32 {
	shape := &h.states.shape
	return slotOf(slotOf(h.layer.matrices, slot, shape.MatrixValues()), h.head, shape.KeyDim*shape.ValueDim)
}

// logged returns the place of a row in the log of a slot.
func (h *deltaHead) logged(slot, row int) (key, value, factors []float32) {
	shape := &h.states.shape
	n := shape.KeyDim + shape.ValueDim + 2
	line := slotOf(slotOf(h.layer.log, slot, shape.LogValues()), row*shape.Heads+h.head, n)
	return line[:shape.KeyDim], line[shape.KeyDim : n-2], line[n-2:]
}

// begin makes the matrix before the first row: that of From with the accepted rows of its log.
func (h *deltaHead) begin() {
	state := &h.seq.State
	if state.From < 0 {
		clear(h.s)
		return
	}
	if state.From != state.Slot {
		copy(h.s, h.matrix(state.From))
	}
	for i := range state.Accepted {
		key, value, factors := h.logged(state.From, i)
		h.change(key, key, value, h.memory.u[:len(value)], factors[0], factors[1]) // nothing is read
	}
}

func (h *deltaHead) rows() {
	state, n := &h.seq.State, h.seq.Rows
	for r := 0; r < state.Prompt; r += compute.ChunkRows {
		h.chunk(h.first+r, min(compute.ChunkRows, state.Prompt-r))
	}
	for r := state.Prompt; r < n-state.Drafts; r++ {
		q, k, v := h.operands(h.first+r, 0)
		g, beta := h.factors(h.first + r)
		h.change(q, k, v, h.result(h.first+r), float32(math.Exp(g)), beta)
	}
	if state.Drafts > 0 {
		h.drafts()
	}
}

// drafts computes the last rows and logs them. The matrix of the slot stays that before them.
func (h *deltaHead) drafts() {
	m, shape := h.memory, &h.states.shape
	m.before = grow(m.before, shape.KeyDim*shape.ValueDim)
	copy(m.before, h.s)
	for i := range h.seq.State.Drafts {
		r := h.first + h.seq.Rows - h.seq.State.Drafts + i
		q, k, v := h.operands(r, 0)
		g, beta := h.factors(r)
		key, value, factors := h.logged(h.seq.State.Slot, i)
		copy(key, k)
		copy(value, v)
		factors[0], factors[1] = float32(math.Exp(g)), beta
		h.change(q, key, value, h.result(r), factors[0], factors[1])
	}
	copy(h.s, m.before)
}

// operands writes the normed query and key of a row to place i of the chunk's memory, and returns
// them with the row's value.
func (h *deltaHead) operands(r, i int) (q, k, v []float32) {
	m, n := h.memory, h.states.shape.KeyDim
	line := row(h.qkv, r)
	q, k = m.q[i*n:(i+1)*n], m.k[i*n:(i+1)*n]
	unit(q, line[h.keyHead*n:], h.settings.Eps, 1/math.Sqrt(float64(n)))
	unit(k, line[(h.settings.KeyHeads+h.keyHead)*n:], h.settings.Eps, 1)
	v = line[2*h.settings.KeyHeads*n+h.head*h.states.shape.ValueDim:][:h.states.shape.ValueDim]
	return q, k, v
}

// unit writes scale·src/√(Σsrc²+eps) to dst.
func unit(dst, src []float32, eps float32, scale float64) {
	src = src[:len(dst)]
	sum := 0.0
	for _, v := range src {
		sum += float64(v) * float64(v)
	}
	factor := float32(scale / math.Sqrt(sum+float64(eps)))
	for i, v := range src {
		dst[i] = v * factor
	}
}

// factors returns the logarithm g of a row's decay, and its β.
func (h *deltaHead) factors(r int) (g float64, beta float32) {
	gates := row(h.gates, r)
	b, a := gates[h.head], float64(gates[len(gates)/2+h.head]+h.bias[h.head])
	softplus := max(a, 0) + math.Log1p(math.Exp(-math.Abs(a)))
	return float64(h.decay[h.head]) * softplus, sigmoid(b)
}

// change applies a row to the matrix, S ← decay·S; S ← S + k·β(v - Sᵀk)ᵀ, and then writes Sᵀq to
// out.
func (h *deltaHead) change(q, k, v, out []float32, decay, beta float32) {
	a := &h.step.scratch[h.thread].delta
	a.S, a.K, a.Q, a.V, a.Out = &h.s[0], &k[0], &q[0], &v[0], &out[0]
	a.Keys, a.Values, a.Decay, a.Beta = int64(len(k)), int64(len(v)), float64(decay), float64(beta)
	h.step.kernels.Delta(a)
}

// result returns the head's result of row r.
func (h *deltaHead) result(r int) []float32 {
	dims := h.states.shape.ValueDim
	return row(h.dst, r)[h.head*dims : (h.head+1)*dims]
}

// sum adds products: out[at[i]:] += Σ_p weights[i·stride+p]·v[p·dims:] for i < n and p < positions,
// in the order of p.
func (h *deltaHead) sum(out []float32, at []int64, n int, weights []float32, stride int, v []float32, positions, dims int) {
	a := &h.step.scratch[h.thread].values
	a.Out, a.At, a.Queries = &out[0], &at[0], int64(n)
	a.Weights, a.WeightsStride = &weights[0], int64(stride)
	a.V, a.Stride, a.Positions, a.Dims = unsafe.Pointer(&v[0]), int64(dims), int64(positions), int64(dims)
	a.Next, a.NextBytes = nil, 0
	h.step.kernels.Values(a)
}

// dots writes the products of n rows of q with those of k to the chunk's scores.
func (h *deltaHead) dots(q, k []float32, n int) {
	m := h.memory
	a := &h.step.scratch[h.thread].scores
	a.Q, a.At, a.Queries = &q[0], &m.atKey[0], int64(n)
	a.K, a.Stride, a.Positions, a.Dims = unsafe.Pointer(&k[0]), int64(m.keyed), int64(n), int64(m.keyed)
	a.Out, a.OutStride, a.Scale = &m.scores[0], int64(n), 1
	a.Next, a.NextBytes = nil, 0
	h.step.kernels.Scores(a)
}

// chunk computes n rows of the prompt from row first on, by the formulae of compute.Step.DeltaNet.
func (h *deltaHead) chunk(first, n int) {
	m, dims, total := h.memory, h.states.shape.ValueDim, 0.0
	for i := range n {
		h.operands(first+i, i)
		g, beta := h.factors(first + i)
		total += g
		m.sums[i], m.beta[i] = total, beta
		m.atDst[i] = int64(start(h.dst, first+i) + h.head*dims)
	}
	h.changes(first, n)
	h.finish(first, n, total)
}

// finish computes the results of a chunk from its queries, keys, changes u and sums G, and applies
// the changes to the matrix. total is the last of the sums.
func (h *deltaHead) finish(first, n int, total float64) {
	m, shape := h.memory, &h.states.shape
	keyDim, dims := shape.KeyDim, shape.ValueDim
	for i := range n {
		clear(row(h.dst, first+i)[h.head*dims : (h.head+1)*dims])
	}
	h.sum(values(h.dst), m.atDst, n, m.q, keyDim, h.s, keyDim, dims)
	h.dots(m.q, m.k, n)
	for i := range n {
		factor, line := float32(math.Exp(m.sums[i])), row(h.dst, first+i)[h.head*dims:(h.head+1)*dims]
		for j := range line {
			line[j] *= factor
		}
		m.decayed(i, n, 1)
		clear(m.scores[i*n+i+1 : (i+1)*n])
	}
	h.sum(values(h.dst), m.atDst, n, m.scores, n, m.u, n, dims)

	factor := float32(math.Exp(total))
	for i := range h.s {
		h.s[i] *= factor
	}
	for j := range n {
		factor := float32(math.Exp(total - m.sums[j]))
		for i := range keyDim {
			m.keys[i*n+j] = factor * m.k[j*keyDim+i]
		}
	}
	h.sum(h.s, m.atRow, keyDim, m.keys, n, m.u, n, dims)
}

// changes computes the rows u of a chunk.
func (h *deltaHead) changes(first, n int) {
	m, shape := h.memory, &h.states.shape
	dims := shape.ValueDim
	clear(m.u[:n*dims])
	h.sum(m.u, m.atU, n, m.k, shape.KeyDim, h.s, shape.KeyDim, dims)
	h.dots(m.k, m.k, n)
	for i := range n {
		decay, u := float32(math.Exp(m.sums[i])), m.u[i*dims:(i+1)*dims]
		v := row(h.qkv, first+i)[2*h.settings.KeyHeads*shape.KeyDim+h.head*dims:]
		for j := range u {
			u[j] = m.beta[i] * (v[j] - decay*u[j])
		}
		if i > 0 {
			m.decayed(i, n, -m.beta[i])
			h.sum(m.u, m.atU[i:], 1, m.scores[i*n:], 0, m.u, i, dims)
		}
	}
}

// decayed multiplies the scores of row i and rows j ≤ i by factor·e^{G_i-G_j}.
func (c *chunk) decayed(i, n int, factor float32) {
	for j := range i + 1 {
		c.scores[i*n+j] *= factor * float32(math.Exp(c.sums[i]-c.sums[j]))
	}
}
