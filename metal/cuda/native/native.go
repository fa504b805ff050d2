// Package native holds kernels in CUDA C++ for what NVIDIA's GPUs do in another way than kernels/*.metal: products of quantised
// weights with activations of 8 bits, on integer units and tensor cores. Package metal says when they are used.
package native

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
)

//go:embed kernels
var kernels embed.FS

// Source returns the kernels for weights of a type, which has to have blocks.
func Source(t gguf.Type) (metal.Source, error) {
	dir, err := fs.Sub(kernels, "kernels")
	if err != nil {
		return metal.Source{}, fmt.Errorf("read kernels: %w", err)
	}
	src, err := metal.ReadSource(dir, "weights.cu")
	src.Name = fmt.Sprintf("weights.cu for %v", t)
	src.Text = fmt.Sprintf("#define WEIGHT %v\n", t) + src.Text
	return src, err
}
