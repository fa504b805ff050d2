package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// scan is the task of Scan. A part is one head of one sequence. The settings of the embedded delta
// are not used; its qkv is xbc and its gates are dt.
type scan struct {
	delta
	groups int
	skip   []float32
}

func (s *step) Scan(dst, xbc, dt compute.Tensor, sc compute.Scan, st compute.States, layer int) {
	t := &s.scan
	t.dst, t.qkv, t.gates, t.groups = dst, xbc, dt, sc.Groups
	t.decay, t.bias, t.skip = sc.Decay.(*weight).vector, sc.Bias.(*weight).vector, sc.Skip.(*weight).vector
	t.states = st.(*states)
	t.layer = &t.states.layers[layer]
	t.first = firstRows(t.first, s.batch.Seqs)
	shape := t.states.shape
	for i := range s.scratch {
		s.scratch[i].chunk.reserve(shape.KeyDim, shape.ValueDim)
	}
	s.pool.do(t, shape.Heads*len(s.batch.Seqs))
}

func (t *scan) part(thread, i int) {
	shape := t.states.shape
	seq, head := i/shape.Heads, i%shape.Heads
	h := scanHead{
		deltaHead: deltaHead{
			delta: &t.delta, thread: thread, head: head, seq: &t.step.batch.Seqs[seq], first: t.first[seq], memory: &t.step.scratch[thread].chunk,
		},
		group: head / (shape.Heads / t.groups), groups: t.groups, skip: t.skip[head],
	}
	h.s = h.matrix(h.seq.State.Slot)
	h.begin()
	h.rows()
}

// scanHead computes one head of one sequence.
type scanHead struct {
	deltaHead
	group, groups int
	skip          float32
}

// begin makes the matrix before the first row: that of From with the accepted rows of its log.
func (h *scanHead) begin() {
	state := &h.seq.State
	if state.From < 0 {
		clear(h.s)
		return
	}
	if state.From != state.Slot {
		copy(h.s, h.matrix(state.From))
	}
	for i := range state.Accepted {
		b, u, factors := h.logged(state.From, i)
		h.change(b, u, factors[0])
	}
}

func (h *scanHead) rows() {
	state, m := &h.seq.State, h.memory
	for r := 0; r < state.Prompt; r += compute.ChunkRows {
		h.chunk(h.first+r, min(compute.ChunkRows, state.Prompt-r))
	}
	drafts := h.seq.Rows - state.Drafts
	for r := state.Prompt; r < h.seq.Rows; r++ {
		if r == drafts { // the matrix of the slot stays that before the drafts
			m.before = grow(m.before, len(h.s))
			copy(m.before, h.s)
		}
		b, c, g := h.operands(h.first+r, 0)
		u, decay := m.u[:h.states.shape.ValueDim], float32(math.Exp(g))
		if r >= drafts {
			key, value, factors := h.logged(state.Slot, r-drafts)
			copy(key, b)
			copy(value, u)
			factors[0], factors[1] = decay, 0
		}
		h.change(b, u, decay)
		h.read(h.first+r, c)
		h.skipTo(h.first + r)
	}
	if state.Drafts > 0 {
		copy(h.s, m.before)
	}
}

// operands returns B and C of row r, and g. It writes u to place i of the chunk's memory.
func (h *scanHead) operands(r, i int) (b, c []float32, g float64) {
	shape := &h.states.shape
	n, dims := shape.KeyDim, shape.ValueDim
	line := row(h.qkv, r)
	at := shape.Heads*dims + h.group*n
	b, c = line[at:at+n], line[at+h.groups*n:][:n]
	a := float64(row(h.gates, r)[h.head] + h.bias[h.head])
	delta := max(a, 0) + math.Log1p(math.Exp(-math.Abs(a)))
	for j, x := range line[h.head*dims : (h.head+1)*dims] {
		h.memory.u[i*dims+j] = float32(delta) * x
	}
	return b, c, float64(h.decay[h.head]) * delta
}

// change applies a row to the matrix: S ← decay·S + B·uᵀ.
func (h *scanHead) change(b, u []float32, decay float32) {
	for i := range h.s {
		h.s[i] *= decay
	}
	h.sum(h.s, h.memory.atRow, len(b), b, 1, u, 1, len(u))
}

// read writes Sᵀc to the result of row r.
func (h *scanHead) read(r int, c []float32) {
	dims := h.states.shape.ValueDim
	h.memory.atDst[0] = int64(start(h.dst, r) + h.head*dims)
	clear(h.result(r))
	h.sum(values(h.dst), h.memory.atDst, 1, c, 0, h.s, len(c), dims)
}

// skipTo adds Skip·x to the result of row r.
func (h *scanHead) skipTo(r int) {
	dims := h.states.shape.ValueDim
	out, x := row(h.dst, r)[h.head*dims:(h.head+1)*dims], row(h.qkv, r)[h.head*dims:]
	for i := range out {
		out[i] += h.skip * x[i]
	}
}

// chunk computes n rows of the prompt from row first on, by the formulae of compute.Step.Scan.
func (h *scanHead) chunk(first, n int) {
	m, shape, total := h.memory, &h.states.shape, 0.0
	for i := range n {
		b, c, g := h.operands(first+i, i)
		copy(m.k[i*shape.KeyDim:], b)
		copy(m.q[i*shape.KeyDim:], c)
		total += g
		m.sums[i] = total
		m.atDst[i] = int64(start(h.dst, first+i) + h.head*shape.ValueDim)
	}
	h.finish(first, n, total)
	for i := range n {
		h.skipTo(first + i)
	}
}
