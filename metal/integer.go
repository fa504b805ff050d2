package metal

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Devices with Info.NativeKernels have kernels of their own for weights in blocks: products of their integers with activations of
// 8 bits. metal/cuda/native/kernels has them and says what they compute; this file, integer_step.go and integer_experts.go have
// their geometry and bind them.

const (
	groupRows   = 16  // rows of weights that are packed together
	columnRows  = 8   // rows of activations that are packed together
	columnBytes = 320 // of a block of these
	blockValues = 32
	rowThreads  = 128 // threads of the kernels over rows
)

// integerKernel is a kernel that multiplies rows of weights with columns, the rows of activations.
type integerKernel struct {
	rows, columns int // of a threadgroup
	simdgroups    int // of a threadgroup
	pipeline      Pipeline
}

// groups is the number of threadgroups over rows of weights.
func (k integerKernel) groups(rows int) int { return (rows + k.rows - 1) / k.rows }

// tiles is the number of tiles of columns.
func (k integerKernel) tiles(columns int) int { return (columns + k.columns - 1) / k.columns }

// integerGeometry is the kernels of weights.cu by name. The numbers follow from the types there.
var integerGeometry = map[string]integerKernel{
	"row_product":      {rows: 16, columns: 1, simdgroups: 8},
	"row_experts_add":  {rows: 16, columns: 1, simdgroups: 2},
	"product_1":        {rows: 32, columns: 1, simdgroups: 4},
	"product_2":        {rows: 32, columns: 2, simdgroups: 4},
	"product_4":        {rows: 32, columns: 4, simdgroups: 4},
	"product_8":        {rows: 16, columns: 8, simdgroups: 8},
	"product_8_wide":   {rows: 64, columns: 8, simdgroups: 4},
	"product_16":       {rows: 16, columns: 16, simdgroups: 8},
	"product_32":       {rows: 32, columns: 32, simdgroups: 8},
	"gated_product_1":  {rows: 32, columns: 1, simdgroups: 4},
	"gated_product_8":  {rows: 32, columns: 8, simdgroups: 4},
	"gated_product_32": {rows: 16, columns: 32, simdgroups: 8},
	"gated_experts_1":  {rows: 32, columns: 1, simdgroups: 4},
	"gated_experts_8":  {rows: 32, columns: 8, simdgroups: 4},
	"gated_experts_32": {rows: 16, columns: 32, simdgroups: 8},
	"experts_down_1":   {rows: 32, columns: 1, simdgroups: 4},
	"experts_down_8":   {rows: 32, columns: 8, simdgroups: 4},
	"experts_down_32":  {rows: 32, columns: 32, simdgroups: 8},
}

const (
	// rowBlockBytes is the threadgroup memory for a block of a row that a kernel quantises itself.
	rowBlockBytes = 40
	// rowAlign is what the memory of a row is a multiple of, where another follows.
	rowAlign = 16
	// rowPartBytes is that for the products of a choice with a group of rows.
	rowPartBytes = 640
	// maxRowChoices is how many choices of a row row_experts_add takes.
	maxRowChoices = 12
)

// wideRows is from how many rows of weights on a matrix fills the GPU with threadgroups of many rows each.
const wideRows = 16384

// integerKernels are the pipelines for weights of a type.
type integerKernels struct {
	pack, embed, quantise, norm, rotate, group, weigh Pipeline

	product, gated, gatedExperts, expertsDown []integerKernel // by columns, ascending
	wide                                      integerKernel
	// These take one row of activations, which they quantise themselves; rowExperts has so many simdgroups for each choice.
	row, rowExperts integerKernel
}

// forColumns chooses the kernel that takes all columns at once, or else the one that takes the most.
func forColumns(kernels []integerKernel, columns int) integerKernel {
	for _, k := range kernels {
		if k.columns >= columns {
			return k
		}
	}
	return kernels[len(kernels)-1]
}

// integer is the state of products of integers.
type integer struct {
	kernels map[gguf.Type]*integerKernels
	any     *integerKernels // those of some type, for the kernels that all have

	staging      Buffer // of tensors before they are packed
	stagingBytes int

	activations      Buffer // quantised
	activationsBytes int
	quantised        quantised // what they are
	grouped          groupedChoices
}

// maxActivations is the maximum number of bytes for quantised activations. An operation on more is done in parts.
const maxActivations = 64 << 20

// integersOf makes the kernels for weights of a type, once; nil where the portable kernels are to be used.
func (b *Backend) integersOf(t gguf.Type) (*integerKernels, error) {
	if !b.device.Info().NativeKernels || t.BlockSize() == 1 {
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
		rotate: pipeline("rotate_queries"), group: pipeline("group_choices"), weigh: pipeline("weigh_choices"),
		product: kernels("product", 1, 2, 4, 8, 16, 32), gated: kernels("gated_product", 1, 8, 32),
		gatedExperts: kernels("gated_experts", 1, 8, 32), expertsDown: kernels("experts_down", 1, 8, 32),
		wide: kernel("product_8_wide"), row: kernel("row_product"), rowExperts: kernel("row_experts_add"),
	}
	if err != nil {
		return nil, err
	}
	if b.integer.kernels == nil {
		b.integer.kernels = map[gguf.Type]*integerKernels{}
	}
	b.integer.kernels[t], b.integer.any = k, k
	return k, nil
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

// packedSizes are the bytes of a packed group of rows: of a super-block's header, of a block, and how many blocks a super-block has.
var packedSizes = map[gguf.Type]struct{ header, block, blocks int }{
	gguf.TypeQ40: {0, 288, 1}, gguf.TypeQ41: {0, 320, 1}, gguf.TypeQ50: {0, 352, 1}, gguf.TypeQ51: {0, 384, 1}, gguf.TypeQ80: {0, 544, 1},
	gguf.TypeQ4K: {64, 288, 8}, gguf.TypeQ5K: {64, 352, 8}, gguf.TypeQ6K: {32, 416, 8},
}

// packedBytes is the bytes of a weight's packed matrices.
func packedBytes(w *weight) int {
	size, blocks := packedSizes[w.kind], w.in/blockValues
	return w.matrices * ((w.out + groupRows - 1) / groupRows) * (blocks / size.blocks) * (size.header + size.blocks*size.block)
}

// packArgs and the other argument structs here are those of metal/cuda/native/kernels.
type packArgs struct{ blocks, rowBytes, rows, groups uint32 }

// pack uploads a weight's data and packs it.
func (b *Backend) pack(w *weight, data []byte, what string) error {
	if b.integer.stagingBytes < len(data) {
		b.freeStaging()
		var err error
		if b.integer.staging, err = b.newBuffer(len(data), Private, what+": before it is packed"); err != nil {
			return err
		}
		b.integer.stagingBytes = len(data)
	}
	var err error
	if w.buffer, err = b.newBuffer(packedBytes(w), Private, what); err != nil {
		return err
	}
	if err := b.device.Upload(b.integer.staging, 0, data); err != nil {
		return err
	}
	const simdgroups = 8
	groups, blocks := (w.out+groupRows-1)/groupRows, w.in/blockValues
	a := packArgs{uint32(blocks), uint32(w.rowBytes), uint32(w.out), uint32(groups)}
	ticket, err := b.device.Submit([]Dispatch{{
		Name: "pack", Pipeline: w.integer.pack, Buffers: []Binding{{Buffer: b.integer.staging}, {Buffer: w.buffer}}, Args: bytesOf(&a),
		Groups: [3]int{groups, (blocks + simdgroups - 1) / simdgroups, w.matrices}, Threads: [3]int{32 * simdgroups, 1, 1}, Barrier: true,
	}})
	if err != nil {
		return err
	}
	_, err = b.device.Wait(ticket)
	return err
}

// freeStaging frees what tensors are uploaded to before they are packed.
func (b *Backend) freeStaging() {
	if b.integer.stagingBytes > 0 {
		b.device.FreeBuffer(b.integer.staging)
		b.integer.stagingBytes = 0
	}
}

// reserveActivations makes room for quantised rows of a step's buffer. No step may be in flight.
func (b *Backend) reserveActivations(rows, cols int) error {
	if !b.device.Info().NativeKernels {
		return nil
	}
	each := (cols + blockValues - 1) / blockValues * columnBytes
	bytes := max(min(roomFor(rows)/columnRows*each, maxActivations), each)
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

// roomFor is the rows that are packed for so many.
func roomFor(rows int) int { return (rows + columnRows - 1) &^ (columnRows - 1) }

// quantised is the activations that have been quantised: count slices of n values of each row of x, stride values apart.
type quantised struct {
	x                compute.Tensor
	count, n, stride int
}

// room is the rows that a slice takes.
func (q *quantised) room() int { return roomFor(q.x.Rows) }

// bytes is the memory that they take.
func (q *quantised) bytes() int {
	return q.count * q.room() / columnRows * (q.n / blockValues) * columnBytes
}
