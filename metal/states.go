package metal

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// states has the recurrent states of a model, with three buffers per layer, each divided into
// slots.
type states struct {
	shape    compute.StateShape
	inputs   []Buffer // [slots][ConvRows+Drafts][ConvCols] inputs of the convolution: the state's, then the log's
	matrices []Buffer // [slots][Heads][KeyDim][ValueDim]
	// logs has the matrices' buffers if there are no drafts.
	logs []Buffer // [slots][Drafts][Heads] of a key, a change of the matrix, a factor and a value that is not used; see log_row in kernels/recurrence.h
}

func (s *states) Shape() compute.StateShape { return s.shape }

// States implements compute.Backend.
func (b *Backend) States(shape compute.StateShape) (compute.States, error) {
	s := &states{shape: shape}
	err := b.makeStates(s)
	if err == nil {
		err = b.recorder.makeStates()
	}
	if err != nil {
		return nil, fmt.Errorf("make the states of %d sequences: %w", shape.Slots, err)
	}
	return s, b.reserve(chunkScratch(shape))
}

func (b *Backend) makeStates(s *states) error {
	shape := &s.shape
	switch {
	case shape.Check() != nil:
		return shape.Check()
	case shape.KeyDim > stateKeys:
		return fmt.Errorf("keys of %d values are not supported on GPUs, only up to %d; use --backend cpu", shape.KeyDim, stateKeys)
	case shape.ConvRows > convolveRows:
		return fmt.Errorf("convolutions of %d earlier rows are not supported on GPUs, only up to %d; use --backend cpu", shape.ConvRows, convolveRows)
	}
	for _, values := range []int{shape.ConvValues(), shape.MatrixValues(), shape.LogValues()} {
		if values > math.MaxInt32 || shape.Slots > math.MaxInt32 {
			return fmt.Errorf("%d slots of %d values: both numbers must be below 2³¹", shape.Slots, values)
		}
	}
	for layer := range shape.Layers {
		for _, part := range []struct {
			buffers *[]Buffer
			values  int // per slot
		}{{&s.inputs, shape.ConvValues()}, {&s.matrices, shape.MatrixValues()}, {&s.logs, shape.LogValues()}} {
			if part.values == 0 { // bound, but not used
				*part.buffers = append(*part.buffers, s.matrices[layer])
				continue
			}
			buffer, err := b.newBuffer(4*shape.Slots*part.values, Private, fmt.Sprintf("layer %d of %d", layer, shape.Layers))
			if err != nil {
				return err
			}
			*part.buffers = append(*part.buffers, buffer)
		}
	}
	return nil
}

// chunkScratch returns the bytes of scratch memory for the chunks of prompts: for maxScratch, or
// for a chunk if it needs more.
func chunkScratch(shape compute.StateShape) int {
	return 4*aligned + max(maxScratch, 4*chunkValues*shape.Heads)
}
