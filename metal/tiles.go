package metal

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ingot-run/ingot/engine/gguf"
)

// chooseTiles finds out whether tiles may use simdgroup matrices. Metal does not say in which order these sum, and a row
// has to have the same bits alone and in a tile. So both are run once and compared.
func (b *Backend) chooseTiles(plain bool) error {
	if plain {
		b.kernels.plainTiles = true
		return nil
	}
	same, err := b.tilesAgree()
	if err != nil {
		return fmt.Errorf("compare simdgroup matrices with sums in order: %w", err)
	}
	if !same { // pipelines of the comparison are not those that models need
		b.kernels.plainTiles = true
		clear(b.kernels.types)
	}
	return nil
}

// tilesAgree multiplies random values in tiles and one row at a time, and compares the bits.
func (b *Backend) tilesAgree() (bool, error) {
	const n, out, rows = 1100, 40, 40
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // any values will do
	values := make([]float32, n*out)
	for i := range values {
		values[i] = float32(random.NormFloat64())
	}
	made, err := b.Weight(gguf.Tensor{Name: "comparison", Type: gguf.TypeF32, Shape: []int{n, out}, Data: floatBytes(values)})
	if err != nil {
		return false, err
	}
	w := made.(*weight)
	x, err := b.Buffer(rows, n)
	if err != nil {
		return false, err
	}
	dst, err := b.Buffer(2*rows, out)
	if err != nil {
		return false, err
	}
	in := x.Buffer.(*memory).values
	for i := range in {
		in[i] = float32(random.NormFloat64())
	}
	s := &b.step
	s.err = nil
	s.productTile("compare", dst.Head(rows), x, w, tileArgs{}, false)
	for r := range rows {
		one, to := x.Head(1), dst.Head(1)
		one.Offset, to.Offset = r*n, (rows+r)*out
		s.MatMul(to, one, w)
	}
	s.batch = nil
	err = s.Run()
	got := dst.Buffer.(*memory).values
	same := slices.Equal(got[:rows*out], got[rows*out:])
	for _, buffer := range []Buffer{w.buffer, x.Buffer.(*memory).buffer, dst.Buffer.(*memory).buffer} {
		b.device.FreeBuffer(buffer)
	}
	return same, err
}
