package kernels

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Sizes of recurrent layers: those of Qwen3.5-35B-A3B, except where noted.
const (
	stateKeyHeads, stateHeads, stateDim = 16, 32, 128
	stateCols                           = (2*stateKeyHeads + stateHeads) * stateDim
	convRows                            = 3
	scanGroups, scanHeads, scanDim      = 8, 64, 64 // of Nemotron 3 Nano, whose keys also have stateDim values
	promptRows                          = 512
)

// stateFamilies returns the operations of recurrent layers: on generated rows, each of a different
// sequence, and on a prompt, which is one sequence.
func stateFamilies() (all []family) {
	for _, op := range []struct {
		name string
		make func(*rig, *family) work
	}{{"convolution", convolveWork}, {"delta rule", deltaWork}, {"scan", scanWork}} {
		for _, rows := range append(rowCounts, promptRows) {
			f := family{Measurement{Family: op.name, Type: "f32", Rows: rows}, op.make, gguf.TypeF32}
			if rows == promptRows {
				f.Family += ", prompt"
			}
			all = append(all, f)
		}
	}
	for _, rows := range rowCounts {
		all = append(all, family{Measurement{Family: "gated norm", Type: "f32", Rows: rows}, gatedNormWork, gguf.TypeF32})
	}
	return all
}

// stateWork returns the work of an operation that reads and writes states of the given shape.
// perSeq and perRow are the numbers of values that it reads and writes per sequence and per row.
func stateWork(r *rig, f *family, shape compute.StateShape, perSeq, perRow int, do func(s compute.Step, states compute.States, layer int)) work {
	b, sequences := separate(f.Rows, nil), f.Rows
	for i := range b.Seqs {
		b.Seqs[i].State = compute.SeqState{From: i, Slot: i}
	}
	if f.Rows == promptRows {
		b.Seqs, sequences = []compute.Seq{{Rows: f.Rows, State: compute.SeqState{From: -1, Prompt: f.Rows}}}, 1
	}
	bytes := floatBytes * (perSeq*sequences + perRow*f.Rows)
	shape.Slots, shape.Layers = sequences, min(r.repetitions(bytes), max(1, 8*promptRows/f.Rows))
	states, err := r.be.States(shape)
	r.fail(err)
	return work{
		bytes: float64(bytes), times: shape.Layers, batch: b,
		step: func(s compute.Step) {
			for layer := range shape.Layers {
				do(s, states, layer)
			}
		},
	}
}

func convolveWork(r *rig, f *family) work {
	w := r.weight(gguf.TypeF32, (convRows+1)*stateCols)
	x, dst := r.values(f.Rows, stateCols), r.buffer(f.Rows, stateCols)
	shape := compute.StateShape{ConvRows: convRows, ConvCols: stateCols, Heads: 1, KeyDim: 1, ValueDim: 1}
	return stateWork(r, f, shape, 2*convRows*stateCols, 2*stateCols, func(s compute.Step, states compute.States, layer int) {
		s.Convolve(dst, x, w, nil, states, layer)
	})
}

func deltaWork(r *rig, f *family) work {
	decay := r.weight(gguf.TypeF32, stateHeads) // random; the time does not depend on it
	d := compute.Delta{KeyHeads: stateKeyHeads, Eps: 1e-6, Decay: decay, Bias: decay}
	x, gates, dst := r.values(f.Rows, stateCols), r.values(f.Rows, 2*stateHeads), r.buffer(f.Rows, stateHeads*stateDim)
	shape := compute.StateShape{ConvRows: 1, ConvCols: 1, Heads: stateHeads, KeyDim: stateDim, ValueDim: stateDim}
	w := stateWork(r, f, shape, 2*shape.MatrixValues(), stateCols+2*stateHeads+dst.Cols, func(s compute.Step, states compute.States, layer int) {
		s.DeltaNet(dst, x, gates, d, states, layer)
	})
	w.flops = 8 * stateHeads * stateDim * stateDim * float64(f.Rows)
	return w
}

func scanWork(r *rig, f *family) work {
	decay := r.weight(gguf.TypeF32, scanHeads)
	sc := compute.Scan{Groups: scanGroups, Decay: decay, Bias: decay, Skip: decay}
	x, dt, dst := r.values(f.Rows, scanHeads*scanDim+2*scanGroups*stateDim), r.values(f.Rows, scanHeads), r.buffer(f.Rows, scanHeads*scanDim)
	shape := compute.StateShape{ConvRows: 1, ConvCols: 1, Heads: scanHeads, KeyDim: stateDim, ValueDim: scanDim}
	w := stateWork(r, f, shape, 2*shape.MatrixValues(), x.Cols+scanHeads+dst.Cols, func(s compute.Step, states compute.States, layer int) {
		s.Scan(dst, x, dt, sc, states, layer)
	})
	w.flops = 5 * scanHeads * stateDim * scanDim * float64(f.Rows)
	return w
}

func gatedNormWork(r *rig, f *family) work {
	const times, cols = 64, stateHeads * stateDim
	x, gate, dst := r.values(f.Rows, cols), r.values(f.Rows, cols), r.buffer(f.Rows, cols)
	n := compute.GatedNorm{Gain: r.weight(gguf.TypeF32, stateDim), Dims: stateDim, Eps: epsilon}
	return work{
		bytes: 3 * floatBytes * cols * float64(f.Rows), times: times, batch: separate(f.Rows, nil),
		step: func(s compute.Step) {
			for range times {
				s.GatedNorm(dst, x, gate, n)
			}
		},
	}
}
