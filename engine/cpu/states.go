package cpu

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
)

// states has the recurrent states of a model, slot after slot in each layer.
type states struct {
	shape  compute.StateShape
	layers []stateLayer
}

// stateLayer has the states of one layer. A slot's inputs of the convolution are ConvRows rows of
// the state, then the rows of the log. A slot's log has, for each row and head, the key, the value,
// and the factors of the old matrix and of the change.
type stateLayer struct {
	conv     []float32 // [slots, ConvRows+Drafts, ConvCols]
	matrices []float32 // [slots, Heads, KeyDim, ValueDim]
	log      []float32 // [slots, Drafts, Heads, KeyDim+ValueDim+2]
}

// Shape implements compute.States.
func (s *states) Shape() compute.StateShape { return s.shape }

// States implements compute.Backend.
func (b *Backend) States(shape compute.StateShape) (compute.States, error) {
	if err := shape.Check(); err != nil {
		return nil, fmt.Errorf("make recurrent states: %w", err)
	}
	s := &states{shape: shape, layers: make([]stateLayer, shape.Layers)}
	for i := range s.layers {
		for _, part := range []struct {
			values *[]float32
			n      int
		}{{&s.layers[i].conv, shape.ConvValues()}, {&s.layers[i].matrices, shape.MatrixValues()}, {&s.layers[i].log, shape.LogValues()}} {
			if part.n == 0 {
				continue
			}
			bytes, err := b.memory.bytes(4 * shape.Slots * part.n)
			if err != nil {
				return nil, fmt.Errorf("make recurrent states of %d slots: %w", shape.Slots, err)
			}
			*part.values = unsafe.Slice((*float32)(unsafe.Pointer(&bytes[0])), shape.Slots*part.n)
		}
	}
	return s, nil
}

// slotOf returns the values of one slot; values has n for each.
func slotOf(values []float32, slot, n int) []float32 { return values[slot*n : (slot+1)*n] }

// convTile is the number of columns of a part of Convolve.
const convTile = 256

var onesOfTile = func() (ones [convTile]float32) {
	for i := range ones {
		ones[i] = 1
	}
	return ones
}()

// convolve is the task of Convolve. A part is a run of columns of one sequence.
type convolve struct {
	step   *step
	dst, x compute.Tensor
	w      []float32
	bias   []float32 // nil for none
	states *states
	layer  *stateLayer
	tiles  int   // parts of a sequence
	first  []int // [sequences] index of the sequence's first row
}

func (s *step) Convolve(dst, x compute.Tensor, w, bias compute.Weight, st compute.States, layer int) {
	t := &s.convolve
	t.dst, t.x, t.w, t.bias = dst, x, w.(*weight).vector, vectorOf(bias)
	t.states = st.(*states)
	t.layer = &t.states.layers[layer]
	t.tiles = (x.Cols + convTile - 1) / convTile
	t.first = firstRows(t.first, s.batch.Seqs)
	s.pool.do(t, t.tiles*len(s.batch.Seqs))
}

// firstRows returns the index of each sequence's first row. It reuses the slice first.
func firstRows(first []int, seqs []compute.Seq) []int {
	first = first[:0]
	row := 0
	for i := range seqs {
		first = append(first, row)
		row += seqs[i].Rows
	}
	return first
}

func (t *convolve) part(thread, i int) {
	seq := i / t.tiles
	from := i % t.tiles * convTile
	t.rows(thread, &t.step.batch.Seqs[seq], t.first[seq], from, min(from+convTile, t.x.Cols))
	t.keep(&t.step.batch.Seqs[seq], t.first[seq], from, min(from+convTile, t.x.Cols))
}

// before returns columns [from, to) of the input that is n rows before the first row of the
// sequence's rows in the batch. It returns nil if all of them are 0.
func (t *convolve) before(state *compute.SeqState, n, from, to int) []float32 {
	if state.From < 0 {
		return nil
	}
	shape := t.states.shape
	row := shape.ConvRows + state.Accepted - n
	return slotOf(t.layer.conv, state.From, shape.ConvValues())[row*shape.ConvCols:][from:to]
}

func (t *convolve) rows(thread int, seq *compute.Seq, first, from, to int) {
	past := t.states.shape.ConvRows
	a := &t.step.scratch[thread].gateBy
	for r := range seq.Rows {
		out := row(t.dst, first+r)[from:to]
		clear(out)
		if t.bias != nil {
			copy(out, t.bias[from:to])
		}
		var in [usualTaps][]float32
		for j := range past + 1 {
			line := noInput[:to-from]
			if at := r - past + j; at >= 0 {
				line = row(t.x, first+at)[from:to]
			} else if before := t.before(&seq.State, -at, from, to); before != nil {
				line = before
			}
			if past+1 == usualTaps {
				in[j] = line
				continue
			}
			for c, v := range line {
				out[c] += v * t.w[(from+c)*(past+1)+j]
			}
		}
		if past+1 == usualTaps {
			k := &t.step.scratch[thread].convolve
			k.Out, k.W, k.N = &out[0], &t.w[from*usualTaps], int64(to-from)
			k.X0, k.X1, k.X2, k.X3 = &in[0][0], &in[1][0], &in[2][0], &in[3][0]
			t.step.kernels.Convolve(k)
		}
		t.step.silu(a, out, out, onesOfTile[:len(out)])
	}
}

// usualTaps is the number of rows of a convolution in most models.
const usualTaps = 4

// noInput is the input before position 0.
var noInput [convTile]float32

// keep stores the last inputs before the drafts, and the drafts' inputs. Each input comes from the
// same row of the slot or a later one, so ascending order is right even if From is Slot.
func (t *convolve) keep(seq *compute.Seq, first, from, to int) {
	shape := t.states.shape
	slot := slotOf(t.layer.conv, seq.State.Slot, shape.ConvValues())
	for i := range shape.ConvRows + seq.State.Drafts {
		dst, at := slot[i*shape.ConvCols:][from:to], seq.Rows-seq.State.Drafts-shape.ConvRows+i
		if at >= 0 {
			copy(dst, row(t.x, first+at)[from:to])
		} else if src := t.before(&seq.State, -at, from, to); src != nil {
			copy(dst, src)
		} else {
			clear(dst)
		}
	}
}

// silu writes gate·σ(gate)·x to dst, which may be gate or x.
func (b *Backend) silu(a *kernels.GateArgs, dst, gate, x []float32) {
	a.Kind, a.Dst, a.Gate, a.Up, a.N = int64(compute.SiLU), &dst[0], &gate[0], &x[0], int64(len(dst))
	b.kernels.Gate(a)
}

func (s *step) GatedNorm(dst, x, gate compute.Tensor, n compute.GatedNorm) {
	t := &s.byRow
	t.dst, t.src, t.other, t.gain, t.gatedNorm = dst, x, gate, n.Gain.(*weight).vector, n
	t.run((*rowsTask).normGated, dst.Rows, 2*dst.Cols)
}

func (t *rowsTask) normGated(thread, r int) {
	m, n := &t.step.scratch[thread], &t.gatedNorm
	dst, src, gate := row(t.dst, r), row(t.src, r), row(t.other, r)
	for at := 0; at < len(dst); at += n.Dims {
		gain := t.gain
		if len(gain) > n.Dims {
			gain = gain[at:]
		}
		out, in := dst[at:at+n.Dims], src[at:at+n.Dims]
		if n.GateFirst {
			t.step.silu(&m.gateBy, out, gate[at:at+n.Dims], in)
			in = out
		}
		t.step.norm(thread, out, in, gain[:n.Dims], n.Eps)
		if !n.GateFirst {
			t.step.silu(&m.gateBy, out, gate[at:at+n.Dims], out)
		}
	}
}

// Gate implements compute.Step.
func (s *step) Gate(dst, gate compute.Tensor) {
	t := &s.byRow
	t.dst, t.src = dst, gate
	t.run((*rowsTask).gate, dst.Rows, expValues*dst.Cols)
}

func (t *rowsTask) gate(_, r int) {
	dst, gate := row(t.dst, r), row(t.src, r)
	if len(gate) == 1 {
		factor := sigmoid(gate[0])
		for i := range dst {
			dst[i] *= factor
		}
		return
	}
	for i, v := range gate {
		dst[i] *= sigmoid(v)
	}
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
