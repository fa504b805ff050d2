package model

import (
	"fmt"
	"math"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Files that llama.cpp's converter makes of ModelOpt's checkpoints have a tensor NAME.scale for a
// tensor NAME.weight of type NVFP4: a factor of the whole matrix, or one for each expert. A tensor
// without it has the factor 1. NAME.input_scale is for kernels that quantise activations to four
// bits, and is ignored.

// scaled multiplies a tensor of type NVFP4 by its scales. If the file has scales, all its tensors
// of this type get type NVFP4F32, so that matrices that are used together have one type.
func (l *loader) scaled(t gguf.Tensor) gguf.Tensor {
	if !l.hasScales() || l.err != nil {
		return t
	}
	l.used[besides(t, "input_scale")] = true
	scales := l.scalesOf(t)
	switch {
	case l.err != nil:
		return t
	case l.planning:
		t.Type, t.Data = gguf.TypeNVFP4F32, nil
		return t
	}
	made := gguf.ScaleNVFP4(t, scales)
	l.fail(l.file.ReleaseTensor(t))
	return made
}

// scalesOf returns the factors of a tensor: one for each of its matrices, or one for all.
func (l *loader) scalesOf(t gguf.Tensor) []float32 {
	s, ok := l.file.Tensor(besides(t, "scale"))
	if !ok || l.readsScale(t) {
		return []float32{1}
	}
	l.used[s.Name] = true
	matrices := elements(t.Shape[min(2, len(t.Shape)):])
	if n := s.Elements(); s.Type != gguf.TypeF32 || n != 1 && n != matrices {
		l.fail(fmt.Errorf("tensor %s has shape %v and type %v, but must have one value of type F32, or one for each matrix of tensor %s (%d)",
			s.Name, s.Shape, s.Type, t.Name, matrices))
		return nil
	}
	values := s.Values()
	for _, v := range values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			l.fail(fmt.Errorf("tensor %s has the value %v, but scales must be finite", s.Name, v))
		}
	}
	return values
}

// readsScale reports whether the family itself reads the scale: Gemma 4 has scales of its experts
// for weights of all types, and files in NVFP4 have the product of both in this tensor.
func (l *loader) readsScale(t gguf.Tensor) bool {
	return l.arch == "gemma4" && strings.HasSuffix(t.Name, ".ffn_down_exps.weight")
}

// hasScales reports whether the file has a scale of a tensor of type NVFP4.
func (l *loader) hasScales() bool {
	if l.scales == nil {
		found := false
		for _, t := range l.file.Tensors() {
			if t.Type == gguf.TypeNVFP4 {
				_, ok := l.file.Tensor(besides(t, "scale"))
				found = found || ok
			}
		}
		l.scales = &found
	}
	return *l.scales
}

// besides returns the name of a tensor that belongs to t.
func besides(t gguf.Tensor, suffix string) string {
	return strings.TrimSuffix(t.Name, "weight") + suffix
}
