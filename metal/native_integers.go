package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Devices with Info.NativeKernels multiply the integers of quantised weights with activations of 8 bits. The kernels in
// kernels/cuda define the results. This file has the geometry and the memory of these kernels; native_product.go and
// native_experts.go record the operations.

const (
	groupRows   = 16  // rows of weights that are packed together
	columnRows  = 8   // rows of activations that are packed together
	columnBytes = 320 // bytes of a block of values for columnRows rows
	blockValues = 32  // values that share a scale
	rowThreads  = 128 // threads per threadgroup of kernels without a geometry
)

// integerKernel multiplies rows of weights with columns, which are rows of activations.
type integerKernel struct {
	rows, columns int // rows and columns per threadgroup
	simdgroups    int // per threadgroup
	normRounds    int // maximum number of rounds in which a kernel normalises a row; a thread takes 8 values per round
	pipeline      Pipeline
}

// groups returns the number of threadgroups for a number of rows of weights.
func (k integerKernel) groups(rows int) int { return (rows + k.rows - 1) / k.rows }

// tiles returns the number of tiles for a number of columns.
func (k integerKernel) tiles(columns int) int { return (columns + k.columns - 1) / k.columns }

// integerGeometry lists the kernels of weights.cu. Its numbers follow from the template arguments in that file.
var integerGeometry = map[string]integerKernel{
	"row_product":       {rows: 16, columns: 1, simdgroups: 8, normRounds: 2},
	"row_product_short": {rows: 64, columns: 1, simdgroups: 8, normRounds: 1},
	"row_gated_experts": {rows: 32, columns: 1, simdgroups: 4},
	"row_experts_add":   {rows: 16, columns: 1, simdgroups: 2},
	"product_1":         {rows: 32, columns: 1, simdgroups: 4},
	"product_2":         {rows: 32, columns: 2, simdgroups: 4},
	"product_4":         {rows: 32, columns: 4, simdgroups: 4},
	"product_8":         {rows: 16, columns: 8, simdgroups: 8},
	"product_8_wide":    {rows: 64, columns: 8, simdgroups: 4},
	"product_16":        {rows: 16, columns: 16, simdgroups: 8},
	"product_32":        {rows: 32, columns: 32, simdgroups: 8},
	"gated_product_1":   {rows: 32, columns: 1, simdgroups: 4},
	"gated_product_8":   {rows: 32, columns: 8, simdgroups: 4},
	"gated_product_32":  {rows: 16, columns: 32, simdgroups: 8},
	"gated_experts_8":   {rows: 32, columns: 8, simdgroups: 4},
	"gated_experts_32":  {rows: 16, columns: 32, simdgroups: 8},
	"experts_down_8":    {rows: 32, columns: 8, simdgroups: 4},
	"experts_down_32":   {rows: 32, columns: 32, simdgroups: 8},
}

const (
	// rowBlockBytes is the threadgroup memory for a block of a row that a kernel quantises itself.
	rowBlockBytes = 40
	// rowAlign is the alignment in threadgroup memory of rows that a kernel quantises itself.
	rowAlign = 16
	// rowPartBytes is the threadgroup memory for the partial sums of one choice (an expert of the row) in row_experts_add.
	rowPartBytes = 640
	// shortRow is the maximum number of blocks of a row for row_product_short.
	shortRow = 32
	// maxRowChoices is the maximum number of choices that row_experts_add takes.
	maxRowChoices = 12
	// wideRows is the minimum number of rows of weights for which threadgroups of 64 rows occupy the whole GPU.
	wideRows = 16384
)

// integerKernels are the pipelines for weights of a type.
type integerKernels struct {
	pack, embed, quantise, norm, latents, rotate, group, weigh Pipeline

	product, gated, gatedExperts, expertsDown []integerKernel // by columns, ascending
	wide                                      integerKernel
	// row, shortRow and rowExperts take one row of activations and quantise it themselves; rowGated takes one quantised row. All of them
	// stage their weights in threadgroup memory. The simdgroups of rowExperts are counted per choice.
	row, shortRow, rowGated, rowExperts integerKernel
}

// forColumns returns the smallest kernel that takes all columns at once. If there is none, it returns the largest kernel.
func forColumns(kernels []integerKernel, columns int) integerKernel {
	for _, k := range kernels {
		if k.columns >= columns {
			return k
		}
	}
	return kernels[len(kernels)-1]
}

// integer is a backend's state for products of integers.
type integer struct {
	kernels map[gguf.Type]*integerKernels
	shared  *integerKernels // for the kernels that do not depend on the type of weights; nil if no weight is packed

	staging      Buffer // receives tensors before they are packed
	stagingBytes int

	activations      Buffer // quantised
	activationsBytes int
	quantised        quantised      // the contents of activations
	grouped          groupedChoices // the contents of scratch memory
	chosen           choice         // the choice that the last GatedExperts made
}

// maxActivations is the maximum number of bytes for quantised activations. An operation that needs more bytes is done in parts.
const maxActivations = 64 << 20

// integersOf returns the kernels for weights of a type, or nil if the portable kernels are to be used. The kernels
// of a type are made once.
func (b *Backend) integersOf(t gguf.Type) (*integerKernels, error) {
	if !b.packs(t) {
		return nil, nil
	}
	if have, ok := b.integer.kernels[t]; ok {
		return have, nil
	}
	lib, err := b.compileIntegers(t)
	if err != nil {
		return nil, err
	}
	pipeline := func(name string) (p Pipeline) {
		if err == nil {
			p, err = b.device.Pipeline(lib, name, nil)
		}
		return p
	}
	kernel := func(name string) integerKernel {
		k := integerGeometry[name]
		k.pipeline = pipeline(name)
		return k
	}
	kernels := func(name string, columns ...int) (list []integerKernel) {
		for _, n := range columns {
			list = append(list, kernel(fmt.Sprintf("%s_%d", name, n)))
		}
		return list
	}
	k := &integerKernels{
		pack: pipeline("pack_weights"), embed: pipeline("embed_rows"), quantise: pipeline("quantise_rows"), norm: pipeline("norm_quantise"),
		latents: pipeline("latents"), rotate: pipeline("rotate_queries"), group: pipeline("group_choices"), weigh: pipeline("weigh_choices"),
		product: kernels("product", 1, 2, 4, 8, 16, 32), gated: kernels("gated_product", 1, 8, 32),
		gatedExperts: kernels("gated_experts", 8, 32), expertsDown: kernels("experts_down", 8, 32),
		wide: kernel("product_8_wide"), row: kernel("row_product"), shortRow: kernel("row_product_short"), rowGated: kernel("row_gated_experts"), rowExperts: kernel("row_experts_add"),
	}
	if err != nil {
		return nil, err
	}
	if b.integer.kernels == nil {
		b.integer.kernels = map[gguf.Type]*integerKernels{}
	}
	b.integer.kernels[t], b.integer.shared = k, k
	return k, nil
}

// packs reports whether weights of a type are packed for products of integers.
func (b *Backend) packs(t gguf.Type) bool {
	_, packed := packedSizes[t]
	return packed && b.device.Info().NativeKernels
}

// compileIntegers compiles the kernels for weights of a type.
func (b *Backend) compileIntegers(t gguf.Type) (Library, error) {
	src, err := nativeSource("weights.cu")
	if err != nil {
		return 0, err
	}
	src.Name = fmt.Sprintf("%s for %v", src.Name, t)
	src.Text = fmt.Sprintf("#define WEIGHT %v\n", t) + src.Text
	return b.device.Compile(src, b.kernels.mode)
}

// packedSizes describes a packed group of rows with the sizes of weights.h: bytes of a super-block's header, bytes of a block, and
// blocks per super-block. Types that are not in the map use the portable kernels.
var packedSizes = map[gguf.Type]struct{ header, block, blocks int }{
	gguf.TypeQ40: {0, 288, 1}, gguf.TypeQ41: {0, 320, 1}, gguf.TypeQ50: {0, 352, 1}, gguf.TypeQ51: {0, 384, 1}, gguf.TypeQ80: {0, 544, 1},
	gguf.TypeQ4K: {64, 288, 8}, gguf.TypeQ5K: {64, 352, 8}, gguf.TypeQ6K: {32, 416, 8},
}

// packedBytes returns the number of bytes of a weight's packed matrices.
func packedBytes(w *weight) int {
	return w.matrices * ((w.out + groupRows - 1) / groupRows) * groupBytes(w)
}

// groupBytes returns the number of bytes of a packed group of rows of a weight.
func groupBytes(w *weight) int {
	size := packedSizes[w.kind]
	return w.in / blockValues / size.blocks * (size.header + size.blocks*size.block)
}

// packArgs is PackArgs of pack.h.
type packArgs struct{ blocks, rowBytes, rows, groups uint32 }

// pack uploads a weight's data and packs the weight. Errors begin with the parameter what, which says what is being done.
func (b *Backend) pack(w *weight, data []byte, what string) error {
	if b.integer.stagingBytes < len(data) {
		b.freeStaging()
		var err error
		if b.integer.staging, err = b.newBuffer(len(data), Private, what+": allocate staging memory"); err != nil {
			return err
		}
		b.integer.stagingBytes = len(data)
	}
	var err error
	if w.buffer, err = b.newBuffer(packedBytes(w), Private, what); err != nil {
		return err
	}
	if err := b.device.Upload(b.integer.staging, 0, data); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	const simdgroups = 8
	groups, blocks := (w.out+groupRows-1)/groupRows, w.in/blockValues
	a := packArgs{uint32(blocks), uint32(w.rowBytes), uint32(w.out), uint32(groups)}
	ticket, err := b.device.Submit([]Dispatch{{
		Name: "pack", Pipeline: w.integer.pack, Buffers: []Binding{{Buffer: b.integer.staging}, {Buffer: w.buffer}}, Args: bytesOf(&a),
		Groups: [3]int{groups, (blocks + simdgroups - 1) / simdgroups, w.matrices}, Threads: [3]int{32 * simdgroups, 1, 1}, Barrier: true,
	}})
	if err == nil {
		_, err = b.device.Wait(ticket)
	}
	if err != nil {
		return fmt.Errorf("%s: pack the weights: %w", what, err)
	}
	return nil
}

// freeStaging frees the staging buffer.
func (b *Backend) freeStaging() {
	if b.integer.stagingBytes > 0 {
		b.device.FreeBuffer(b.integer.staging)
		b.integer.stagingBytes = 0
	}
}

// reserveActivations makes room for the quantised rows of a step's buffer. It must not be called while a step is in flight.
func (b *Backend) reserveActivations(rows, cols int) error {
	if !b.device.Info().NativeKernels {
		return nil
	}
	bytes := activationsFor(rows, cols)
	if bytes <= b.integer.activationsBytes {
		return nil
	}
	made, err := b.newBuffer(bytes, Private, "make room for quantised activations")
	if err != nil {
		return err
	}
	if b.integer.activationsBytes > 0 {
		b.device.FreeBuffer(b.integer.activations)
	}
	b.integer.activations, b.integer.activationsBytes = made, bytes
	return nil
}

// activationsFor returns the bytes of memory for quantised rows.
func activationsFor(rows, cols int) int {
	each := (cols + blockValues - 1) / blockValues * columnBytes
	return max(min(roomFor(rows)/columnRows*each, maxActivations), each)
}

// roomFor rounds a number of rows up to whole groups of columnRows.
func roomFor(rows int) int { return (rows + columnRows - 1) &^ (columnRows - 1) }

// quantised identifies quantised activations: count slices of n values of each row of x. Each slice begins stride values after the one
// before it.
type quantised struct {
	x                compute.Tensor
	count, n, stride int
}

// room returns the number of rows that a slice takes in memory.
func (q *quantised) room() int { return roomFor(q.x.Rows) }

// bytes returns the bytes of memory that the activations take.
func (q *quantised) bytes() int {
	return q.count * q.room() / columnRows * (q.n / blockValues) * columnBytes
}
