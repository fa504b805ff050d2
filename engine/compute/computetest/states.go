package computetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// stateSequence is a sequence of an operation with recurrent states.
type stateSequence struct {
	prompt int         // number of rows of the prompt
	lines  [][]float32 // [rows] inputs of the operation, side by side
	want   [][]approx  // [rows]
	plain  [][]float32 // [rows] the backend's results if the sequence is alone and no step is divided
}

// stateOperation is an operation with recurrent states.
type stateOperation struct {
	shape  compute.StateShape
	cols   int // columns of the result
	record func(s compute.Step, dst, x compute.Tensor, states compute.States, layer int)
	// expect returns the expected results of the rows of a sequence.
	expect func(lines [][]float32) [][]approx
}

func (r *rig) newStates(shape compute.StateShape) compute.States {
	states, err := r.be.States(shape)
	require.NoError(r.tb, err)
	require.Equal(r.tb, shape, states.Shape())
	return states
}

// checkStates makes impossible requests for states, as a model file can.
func checkStates(r *rig) {
	whole := compute.StateShape{Layers: 1, Slots: 1, ConvRows: 1, ConvCols: 1, Heads: 1, KeyDim: 1, ValueDim: 1}
	r.newStates(whole)
	for _, change := range []func(s *compute.StateShape){
		func(s *compute.StateShape) { s.Layers = 0 },
		func(s *compute.StateShape) { s.Slots = 0 },
		func(s *compute.StateShape) { s.ConvRows = 0 },
		func(s *compute.StateShape) { s.ConvCols = 0 },
		func(s *compute.StateShape) { s.Heads = -1 },
		func(s *compute.StateShape) { s.KeyDim = 0 },
		func(s *compute.StateShape) { s.ValueDim = 0 },
		func(s *compute.StateShape) { s.Drafts = -1 },
	} {
		shape := whole
		change(&shape)
		_, err := r.be.States(shape)
		require.Error(r.tb, err, "states of shape %+v must be refused", shape)
	}
}

// stateRows are the numbers of rows of prompts at the edges of chunks.
var stateRows = []int{1, 3, 63, 64, 65, 127, 128, 129, 200}

// checkConvolve also checks columns that are not a multiple of a vector's length.
func checkConvolve(r *rig) {
	for i, cols := range []int{8, 67, 384, 1030} {
		shape := compute.StateShape{Layers: 2, ConvRows: []int{3, 2, 3, 1}[i], ConvCols: cols, Heads: 1, KeyDim: 8, ValueDim: 8, Drafts: 3}
		taps := shape.ConvRows + 1
		w := r.matrix(gguf.TypeF32, taps*cols)
		var bias *matrix
		if i%2 == 0 {
			bias = r.matrix(gguf.TypeF32, cols)
		}
		r.playStates(fmt.Sprintf("a convolution of %d columns and %d rows, bias %v", cols, taps, bias != nil), cols, &stateOperation{
			shape: shape, cols: cols,
			record: func(s compute.Step, dst, x compute.Tensor, states compute.States, layer int) {
				s.Convolve(dst, x, w.weight, bias.optional(), states, layer)
			},
			expect: func(lines [][]float32) [][]approx {
				want := make([][]approx, len(lines))
				for t := range lines {
					want[t] = make([]approx, cols)
					for c := range want[t] {
						var sum approx
						if bias != nil {
							sum.value = float64(bias.values[c])
						}
						for j := range taps {
							if at := t - shape.ConvRows + j; at >= 0 {
								sum = sum.plus(approx{value: float64(lines[at][c])}.times(approx{value: float64(w.values[c*taps+j])}))
							}
						}
						want[t][c] = sum.silu()
						want[t][c].tol += tiny
					}
				}
				return want
			},
		})
	}
}

// checkDeltaNet uses heads that share key heads in both orders, and dimensions that differ.
func checkDeltaNet(r *rig) {
	for i, c := range []struct{ heads, keyHeads, keyDim, valueDim int }{
		{2, 2, 128, 128}, {6, 2, 128, 128}, {4, 2, 64, 32}, {2, 1, 32, 64},
	} {
		d := &deltaNet{
			shape: compute.StateShape{Layers: 2, ConvRows: 1, ConvCols: 1, Heads: c.heads, KeyDim: c.keyDim, ValueDim: c.valueDim, Drafts: 3},
			decay: r.matrix(gguf.TypeF32, c.heads), bias: r.matrix(gguf.TypeF32, c.heads),
		}
		decay := make([]float32, c.heads)
		for h := range decay {
			decay[h] = -float32(math.Exp(3 * (r.rand.Float64() - 0.7))) // some heads forget within a few rows, others hardly
		}
		d.decay.values = decay
		d.decay.weight = r.weight(gguf.Tensor{Name: "decay", Type: gguf.TypeF32, Shape: []int{c.heads}, Data: encode(gguf.TypeF32, decay)})
		d.settings = compute.Delta{KeyHeads: c.keyHeads, Grouped: i%2 == 1, Eps: 1e-6, Decay: d.decay.weight, Bias: d.bias.weight}
		qkv := 2*c.keyHeads*c.keyDim + c.heads*c.valueDim
		r.playStates(fmt.Sprintf("the delta rule of %+v, grouped %v", c, d.settings.Grouped), qkv+2*c.heads, &stateOperation{
			shape: d.shape, cols: c.heads * c.valueDim,
			record: func(s compute.Step, dst, x compute.Tensor, states compute.States, layer int) {
				s.DeltaNet(dst, x.Slice(0, qkv), x.Slice(qkv, 2*c.heads), d.settings, states, layer)
			},
			expect: d.expect,
		})
	}
}

type deltaNet struct {
	shape       compute.StateShape
	settings    compute.Delta
	decay, bias *matrix
}

// stateStep is the error that a row may have, relative to the greatest value that its results could
// have. It is several times that of sums in float32 and fast exponentials. Products of values that
// are rounded to 11 bits have larger errors.
const stateStep = 0x1p-18

// expect computes the rows one after another in float64, also those of the prompt. Errors do not
// grow from row to row, since no row lengthens a column of the matrix except by its own change.
func (d *deltaNet) expect(lines [][]float32) [][]approx {
	s, want := d.shape, make([][]approx, len(lines))
	matrices := make([][]float64, s.Heads)
	sizes := make([]float64, s.Heads) // the greatest magnitude that a head's results recently could have
	for t, line := range lines {
		want[t] = make([]approx, s.Heads*s.ValueDim)
		for head := range s.Heads {
			if t == 0 {
				matrices[head] = make([]float64, s.KeyDim*s.ValueDim)
			}
			decay := d.row(matrices[head], line, head, want[t][head*s.ValueDim:(head+1)*s.ValueDim])
			size := 0.0
			for _, o := range want[t][head*s.ValueDim : (head+1)*s.ValueDim] {
				size = max(size, o.tol)
			}
			sizes[head] = max(size, sizes[head]*decay)
			for i := range s.ValueDim {
				want[t][head*s.ValueDim+i].tol = stateStep*sizes[head] + tiny
			}
		}
	}
	return want
}

// row applies a row to a head's matrix, and writes its result to out. The tolerance in out is the
// greatest value that the result could have: the length of the column times that of the query.
func (d *deltaNet) row(m []float64, line []float32, head int, out []approx) (decay float64) {
	s, keyHead := d.shape, head%d.settings.KeyHeads
	if d.settings.Grouped {
		keyHead = head * d.settings.KeyHeads / s.Heads
	}
	at := 2 * d.settings.KeyHeads * s.KeyDim
	q, k := unitLength(line[keyHead*s.KeyDim:][:s.KeyDim]), unitLength(line[(d.settings.KeyHeads+keyHead)*s.KeyDim:][:s.KeyDim])
	v, gates := line[at+head*s.ValueDim:], line[at+s.Heads*s.ValueDim:]
	beta := 1 / (1 + math.Exp(-float64(gates[head])))
	decay = math.Exp(float64(d.decay.values[head]) * math.Log1p(math.Exp(float64(gates[s.Heads+head]+d.bias.values[head]))))
	for j := range s.ValueDim {
		known := 0.0
		for i := range k {
			m[i*s.ValueDim+j] *= decay
			known += m[i*s.ValueDim+j] * k[i]
		}
		length := 0.0
		for i := range k {
			m[i*s.ValueDim+j] += k[i] * beta * (float64(v[j]) - known)
			out[j].value += m[i*s.ValueDim+j] * q[i] / math.Sqrt(float64(s.KeyDim))
			length += m[i*s.ValueDim+j] * m[i*s.ValueDim+j]
		}
		out[j].tol = math.Sqrt(length / float64(s.KeyDim))
	}
	return decay
}

func unitLength(x []float32) []float64 {
	sum := 1e-6
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) / math.Sqrt(sum)
	}
	return out
}

func checkGatedNorm(r *rig) {
	r.newStates(compute.StateShape{Layers: 1, Slots: 1, ConvRows: 1, ConvCols: 1, Heads: 1, KeyDim: 1, ValueDim: 1})
	for i, c := range []struct{ dims, cols int }{{128, 512}, {32, 32}, {7, 21}, {512, 1024}} {
		for _, gateFirst := range []bool{false, true} {
			gain := r.matrix(gguf.TypeF32, []int{c.dims, c.cols}[i%2])
			n := compute.GatedNorm{Gain: gain.weight, Dims: c.dims, Eps: 1e-5, GateFirst: gateFirst}
			rows := r.among(1, 9)
			x, gate := r.normal(rows, c.cols), r.normal(rows, c.cols)
			inPlace := i%2 == 0
			r.verify(operation{
				what:   fmt.Sprintf("norm runs of %d of %d values with a gate, gate first %v, in place %v", c.dims, c.cols, gateFirst, inPlace),
				groups: separate(rows),
				compute: func(rows []int) [][]float32 {
					in, by := r.sheet(pick(x, rows)), r.sheet(pick(gate, rows))
					if inPlace {
						return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.GatedNorm(in.Tensor, in.Tensor, by.Tensor, n) }, in, by)
					}
					out := r.blank(len(rows), c.cols)
					return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.GatedNorm(out.Tensor, in.Tensor, by.Tensor, n) }, out, in, by)
				},
				compare: func(row int, got []float32) error {
					var want []approx
					for at := 0; at < c.cols; at += c.dims {
						want = append(want, normedWithGate(x[row][at:at+c.dims], gate[row][at:at+c.dims], gain.values[at%len(gain.values):], n)...)
					}
					return within(got, want)
				},
			})
		}
	}
}

func normedWithGate(x, gate, gain []float32, n compute.GatedNorm) []approx {
	in, factors := exactly(x), make([]approx, len(x))
	for i, g := range gate {
		factors[i] = approx{value: float64(g)}.silu()
		if n.GateFirst {
			in[i] = in[i].times(factors[i])
		}
	}
	sum := 0.0
	for _, v := range in {
		sum += v.value * v.value
	}
	scale := 1 / math.Sqrt(sum/float64(len(x))+float64(n.Eps))
	out := make([]approx, len(x))
	for i, v := range in {
		out[i] = v.times(approx{scale * float64(gain[i]), (float64(len(x)+16)*float32Step + 2*expStep) * scale * math.Abs(float64(gain[i]))})
		if !n.GateFirst {
			out[i] = out[i].times(factors[i])
		}
		out[i].tol += tiny
	}
	return out
}

func checkGate(r *rig) {
	for _, c := range []struct{ cols, gates int }{{256, 256}, {67, 67}, {300, 1}, {1, 1}} {
		rows := r.among(1, 9)
		x, gate := r.normal(rows, c.cols), r.normal(rows, c.gates)
		gate[0][0], gate[rows-1][c.gates-1] = -200, 100 // σ is about 0 and 1, and exponentials overflow
		r.verify(operation{
			what:   fmt.Sprintf("multiply %d values by %d gates", c.cols, c.gates),
			groups: separate(rows),
			compute: func(rows []int) [][]float32 {
				in, by := r.sheet(pick(x, rows)), r.sheet(pick(gate, rows))
				return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.Gate(in.Tensor, by.Tensor) }, in, by)
			},
			compare: func(row int, got []float32) error {
				want := exactly(x[row])
				for i := range want {
					v := 1 / (1 + math.Exp(-float64(gate[row][i%c.gates])))
					want[i] = want[i].times(approx{v, 2 * expStep * v})
					want[i].tol += tiny
				}
				return within(got, want)
			},
		})
	}
}

// playStates compares an operation with its expected results: each sequence alone with its whole
// prompt in one step, then all sequences together, in steps that are divided at random.
func (r *rig) playStates(what string, cols int, op *stateOperation) {
	r.what = what
	rows := stateRows
	if r.brief {
		rows = []int{3, 65}
	}
	op.shape.Slots = len(rows) + 2
	states := r.newStates(op.shape)
	var seqs []*stateSequence
	for _, n := range rows {
		seq := &stateSequence{prompt: n, lines: r.normal(n+r.among(1, 9), cols)}
		seq.want = op.expect(seq.lines)
		seqs = append(seqs, seq)
	}
	for _, seq := range seqs {
		p := &statePlay{rig: r, op: op, states: states, layer: 1, seqs: []*stateSequence{seq}, at: []statePlace{{slot: r.rand.IntN(op.shape.Slots), next: -1}}}
		for p.at[0].next < len(seq.lines) {
			p.plain()
		}
	}
	p := &statePlay{rig: r, op: op, states: states, seqs: seqs, free: r.rand.Perm(op.shape.Slots)}
	for range seqs {
		p.at = append(p.at, statePlace{slot: p.free[0], next: -1})
		p.free = p.free[1:]
	}
	for p.left() {
		p.mixed()
	}
}

// statePlace is how far a sequence has been computed.
type statePlace struct {
	slot     int
	next     int // the next row; -1 if the sequence has no state
	accepted int // rows in the log that belong to the sequence
	restarts int
}

// statePlay computes sequences step by step.
type statePlay struct {
	*rig
	op     *stateOperation
	states compute.States
	layer  int
	seqs   []*stateSequence
	at     []statePlace
	free   []int // slots of no sequence
}

func (p *statePlay) left() bool {
	for i, seq := range p.seqs {
		if p.at[i].next < len(seq.lines) {
			return true
		}
	}
	return false
}

// plain computes the whole prompt, or one row. The results must be within their tolerance.
func (p *statePlay) plain() {
	seq, at := p.seqs[0], &p.at[0]
	state := compute.SeqState{From: at.slot, Slot: at.slot}
	first, n := at.next, 1
	if at.next < 0 {
		state.From, state.Prompt = -1, seq.prompt
		first, n = 0, seq.prompt
	}
	at.next = first + n
	for i, got := range p.compute(p.layer, seq.lines[first:at.next], []compute.Seq{{Rows: n, State: state}}) {
		if err := within(got, seq.want[first+i]); err != nil {
			p.fail("row %d of a prompt of %d rows and %d generated rows: %v", first+i, seq.prompt, len(seq.lines)-seq.prompt, err)
		}
		seq.plain = append(seq.plain, slices.Clone(got))
	}
}

// compute runs the operation for rows of several sequences.
func (p *statePlay) compute(layer int, lines [][]float32, seqs []compute.Seq) [][]float32 {
	b := &compute.Batch{Seqs: seqs, Tokens: make([]int32, len(lines)), Positions: make([]int32, len(lines))}
	in, out := p.sheet(lines), p.blank(len(lines), p.op.cols)
	return p.run(b, func(s compute.Step) { p.op.record(s, out.Tensor, in.Tensor, p.states, layer) }, out, in)
}

// mixed computes some rows of some sequences in one step. Then it computes other rows in the other
// layer, which must change nothing.
func (p *statePlay) mixed() {
	type result struct{ seq, row int } // of a row; the sequence is -1 for a rejected draft
	var batch []compute.Seq
	var lines [][]float32
	var results []result
	var freed []int
	for _, i := range p.rand.Perm(len(p.seqs))[:1+p.rand.IntN(len(p.seqs))] {
		seq, at := p.seqs[i], &p.at[i]
		if at.next == len(seq.lines) {
			continue
		}
		state, first := p.begin(seq, at), max(at.next, 0)
		if p.rand.IntN(3) == 0 { // continue in another slot
			freed = append(freed, at.slot)
			at.slot, p.free = p.free[0], p.free[1:]
		}
		state.Slot = at.slot
		rows, kept := p.choose(seq, first, &state)
		for row := first; row < first+rows-state.Drafts+kept; row++ {
			lines, results = append(lines, seq.lines[row]), append(results, result{i, row})
		}
		for _, line := range p.normal(max(state.Drafts-kept, 1), len(seq.lines[0]))[:state.Drafts-kept] {
			lines, results = append(lines, line), append(results, result{-1, 0})
		}
		batch = append(batch, compute.Seq{Rows: rows, State: state})
		at.next, at.accepted = first+rows-state.Drafts+kept, kept
		if len(p.free) == 0 {
			break
		}
	}
	p.free = append(p.free, freed...)
	if len(batch) == 0 {
		return
	}
	for j, got := range p.compute(p.layer, lines, batch) {
		if results[j].seq < 0 {
			continue
		}
		seq, row := p.seqs[results[j].seq], results[j].row
		err := sameBits(got, seq.plain[row])
		if p.fast {
			err = within(got, seq.want[row])
		}
		if err != nil {
			p.fail("row %d of a prompt of %d rows differs in a step of %d rows: %v", row, seq.prompt, len(lines), err)
		}
	}
	p.compute(1-p.layer, p.normal(len(lines), len(lines[0])), batch)
}

// begin returns from where a sequence continues. Sometimes, it begins again.
func (p *statePlay) begin(seq *stateSequence, at *statePlace) compute.SeqState {
	if at.next > seq.prompt && at.restarts < 2 && p.rand.IntN(5) == 0 {
		*at = statePlace{slot: at.slot, next: -1, restarts: at.restarts + 1}
	}
	if at.next < 0 {
		return compute.SeqState{From: -1}
	}
	return compute.SeqState{From: at.slot, Accepted: at.accepted}
}

// choose returns the number of a sequence's rows in the next step, and how many of its drafts
// belong to the sequence.
func (p *statePlay) choose(seq *stateSequence, first int, state *compute.SeqState) (rows, kept int) {
	if first < seq.prompt {
		to := (first/compute.ChunkRows + p.among(1, 3)) * compute.ChunkRows
		if p.rand.IntN(2) == 0 || to >= seq.prompt {
			to = seq.prompt
		}
		state.Prompt = to - first
		if to < seq.prompt {
			return state.Prompt, 0
		}
	}
	rows = state.Prompt
	generated := min(p.rand.IntN(4), len(seq.lines)-first-rows)
	if rows+generated == 0 {
		generated = 1
	}
	rows += generated
	state.Drafts = p.rand.IntN(p.op.shape.Drafts + 1)
	kept = min(p.rand.IntN(state.Drafts+1), len(seq.lines)-first-rows)
	return rows + state.Drafts, kept
}
