package metal_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// kernelLog is a device that records the names of the kernels that it runs.
type kernelLog struct {
	metal.Device
	names map[metal.Pipeline]string
	ran   []string
}

func (d *kernelLog) Pipeline(lib metal.Library, function string, constants []metal.Constant) (metal.Pipeline, error) {
	p, err := d.Device.Pipeline(lib, function, constants)
	d.names[p] = function
	return p, err
}

func (d *kernelLog) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	for _, w := range work {
		d.ran = append(d.ran, d.names[w.Pipeline])
	}
	return d.Device.Submit(work)
}

// openHopper starts a backend with the kernels for Hopper on the emulator, and returns it with the
// log of its kernels.
func openHopper(t *testing.T, o metal.Options) (*metal.Backend, *kernelLog) {
	t.Helper()
	dev, err := emulator.Open(emulator.Options{Nvidia: true, Hopper: true})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("the kernels are not tested: %v", err)
	}
	require.NoError(t, err)
	log := &kernelLog{Device: dev, names: map[metal.Pipeline]string{}}
	be, err := metal.New(log, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	return be, log
}

// TestBulkProducts compares the bits of products on Hopper's kernels for 33 to 64 rows with those
// of the kernels for fewer rows. Some rows of weights are short, so that a strand is not whole
// stages, and the numbers of rows are not multiples of a tile's.
func TestBulkProducts(t *testing.T) {
	t.Parallel()
	const limit = 33
	be, log := openHopper(t, metal.Options{Geometry: metal.Geometry{{Kernel: metal.ProductTile, From: limit}, {Kernel: metal.GatedTile, From: limit}}})
	kinds := []gguf.Type{gguf.TypeQ4K}
	if long {
		kinds = []gguf.Type{gguf.TypeQ4K, gguf.TypeQ6K, gguf.TypeQ80, gguf.TypeMXFP4, gguf.TypeQ2K}
	}
	for _, kind := range kinds {
		for _, c := range []struct {
			in      int
			product string
		}{
			{768, "product_bulk"}, {1024, "split_product_short"}, {3072, "split_product_short"},
		} {
			o := &operations{t, be, rand.New(rand.NewPCG(1, uint64(kind)))}
			const rows, out, narrow = 45, 205, 40
			w, up, other := o.weight(kind, c.in, out), o.weight(kind, c.in, out), o.weight(kind, c.in, narrow)
			x, dst := o.values(rows, c.in), o.buffer(rows, 2*out+narrow)
			for name, op := range map[string]func(s compute.Step, dst, x compute.Tensor){
				c.product: func(s compute.Step, dst, x compute.Tensor) {
					s.MatMul(dst, x, w, other, up)
					s.MatMulAdd(dst.Slice(0, out), x, up)
				},
				"gated_product_bulk": func(s compute.Step, dst, x compute.Tensor) { s.GatedMatMul(dst.Slice(0, out), x, w, up, compute.SiLU) },
			} {
				log.ran = nil
				together := o.bits(dst, 0, func(s compute.Step) { op(s, dst, x) })
				require.Contains(t, log.ran, name, "%v %d", kind, c.in)
				apart := o.bits(dst, 0, func(s compute.Step) {
					for first := 0; first < rows; first += limit - 1 {
						end := min(first+limit-1, rows)
						op(s, dst.Span(first, end), x.Span(first, end))
					}
				})
				require.Equal(t, apart, together, "%s, %v, %d values", name, kind, c.in)
			}
		}
	}
}

// TestBalancedProduct compares the bits of products whose strands are divided evenly with those of
// the kernels for fewer rows. Threadgroups begin in each strand of a tile.
func TestBalancedProduct(t *testing.T) {
	t.Parallel()
	be, log := openHopper(t, metal.Options{})
	const in, out, other, rows = 2048, 8401, 150, 130
	o := &operations{t, be, rand.New(rand.NewPCG(in, out))}
	o.weight(gguf.TypeQ4K, 256, 2048, 4) // for which there is scratch memory
	w, v := o.weight(gguf.TypeQ4K, in, out), o.weight(gguf.TypeQ4K, in, other)
	x, dst := o.values(rows, in), o.buffer(rows, out+other)
	op := func(s compute.Step, dst, x compute.Tensor) {
		s.MatMul(dst, x, w, v)
		s.MatMulAdd(dst.Slice(0, out), x, w)
	}
	log.ran = nil
	together := o.bits(dst, 0, func(s compute.Step) { op(s, dst, x) })
	require.Contains(t, log.ran, "balanced_product")
	apart := o.bits(dst, 0, func(s compute.Step) {
		for first := 0; first < rows; first += 32 {
			end := min(first+32, rows)
			op(s, dst.Span(first, end), x.Span(first, end))
		}
	})
	require.NotContains(t, log.ran[len(log.ran)-10:], "balanced_product")
	require.Equal(t, apart, together)
}

// hopperRecord is a recordOnly with Hopper's kernels.
type hopperRecord struct{ recordOnly }

func (d *hopperRecord) Info() metal.Info {
	info := d.recordOnly.Info()
	info.Warpgroups, info.ThreadgroupMemory = true, 227<<10
	return info
}

// TestHopperProductsByWork lists the kernels for 33 to 64 rows by the size of weights: those of
// qwen3-8b, others for which taller tiles would leave a part of the last wave empty, and short
// rows. With 256 rows, tiles of 128 by 128 take up to one wave, two of which the second is nearly
// empty, two, and three.
func TestHopperProductsByWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, out, rows  int
		product, gated string
	}{
		{4096, 4096, 64, "split_product_short", "gated_product_bulk_short"},
		{12288, 4096, 33, "split_product_short", "gated_product_bulk_short"},
		{4096, 6144, 64, "split_product", "gated_product_bulk_short"},
		{4096, 12288, 64, "product_bulk", "gated_product_bulk"},
		{4096, 14336, 64, "product_bulk", "gated_product_bulk_short"},
		{4096, 4096, 32, "product_32_small", "gated_product_32"},
		{1024, 4096, 64, "product_32", "gated_product_bulk_short"},
		{576, 4096, 64, "product_32", "gated_product_64"},
		{4096, 768, 64, "product_32", "gated_product_64"},
		{4096, 8192, 64, "product_32", "gated_product_bulk_short"},
		{1024, 8448, 256, "product_tile", "gated_product_tile"},
		{1024, 9216, 256, "product_tile_short", "gated_product_tile"},
		{1024, 12352, 256, "product_tile", "gated_product_tile"},
		{1024, 17408, 256, "product_tile", "gated_product_tile"},
		{2048, 8192, 256, "product_tile", "gated_product_tile"},
		{2048, 9216, 256, "balanced_product", "gated_product_tile"},
		{2048, 12352, 256, "balanced_product", "gated_product_tile"},
		{2048, 17408, 256, "product_tile", "gated_product_tile"},
	} {
		d := &hopperRecord{}
		be, err := metal.New(d, metal.Options{})
		require.NoError(t, err)
		w, err := be.Weight(gguf.Tensor{Name: "w", Type: gguf.TypeQ40, Shape: []int{c.in, c.out}, Data: make([]byte, c.in/32*c.out*18)})
		require.NoError(t, err)
		x, err := be.Buffer(c.rows, c.in)
		require.NoError(t, err)
		y, err := be.Buffer(c.rows, c.out)
		require.NoError(t, err)
		s := be.Begin(modeltest.Batch(make([]int32, c.rows), 0))
		s.MatMul(y, x, w)
		s.GatedMatMul(y, x, w, w, compute.SiLU)
		require.NoError(t, s.Run())
		require.Equal(t, []string{"quantise_rows", c.product, c.gated}, d.step, "%d rows of %d weights, %d of activations", c.out, c.in, c.rows)
	}
}
