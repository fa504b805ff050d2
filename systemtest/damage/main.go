// Damage writes a copy of a model whose matrices are rounded to few bits, as by a poor
// quantisation. It is for tests of evaluation gates, which must detect the lower accuracy.
//
//	go run ./systemtest/damage -bits 2 models/tiny-glm.q8_0.gguf damaged.gguf
package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"

	"github.com/ingot-run/ingot/engine/gguf"
)

func main() {
	bits := flag.Int("bits", 2, "round weights to `N` bits, 2 to 8")
	flag.Parse()
	if flag.NArg() != 2 || *bits < 2 || *bits > 8 {
		flag.Usage()
		os.Exit(2)
	}
	if err := damage(flag.Arg(0), flag.Arg(1), *bits); err != nil {
		fmt.Fprintln(os.Stderr, "damage:", err)
		os.Exit(1)
	}
}

func damage(in, out string, bits int) (err error) {
	f, err := gguf.Open(in)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	var tensors []gguf.Tensor
	for _, t := range f.Tensors() {
		if t.Type != gguf.TypeF32 { // norms and biases are not rounded
			if t, err = rounded(t, bits); err != nil {
				return err
			}
		}
		tensors = append(tensors, t)
	}
	w, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(gguf.Write(w, f.Meta(), tensors), w.Close())
}

const block = 32

// rounded returns a tensor whose weights have one of 2^bits-1 values per block.
func rounded(t gguf.Tensor, bits int) (gguf.Tensor, error) {
	values := make([]float32, t.Elements())
	gguf.Dequantise(values, t.Type, t.Data)
	steps := float64(int(1)<<(bits-1) - 1)
	for from := 0; from < len(values); from += block {
		part := values[from:min(from+block, len(values))]
		largest := 0.0
		for _, v := range part {
			largest = max(largest, math.Abs(float64(v)))
		}
		if largest == 0 {
			continue
		}
		for i, v := range part {
			part[i] = float32(math.Round(float64(v)/largest*steps) / steps * largest)
		}
	}
	t.Data = make([]byte, len(t.Data))
	if err := gguf.Quantise(t.Data, t.Type, values); err != nil {
		return t, fmt.Errorf("round tensor %q: %w", t.Name, err)
	}
	return t, nil
}
