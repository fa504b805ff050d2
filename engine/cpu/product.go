package cpu

import (
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
)

// operands are the input rows of a product and the positions of their results. Products that take
// floats read their input in x at inFloats. Other products read the step's quantised activations of
// their form at inBlocks.
type operands struct {
	x, out   []float32
	inFloats []int64   // index in the slice x where each row starts
	inBlocks []int64   // index of each row's first block in the step's quantised activations; see place
	at       []int64   // index in the slice out where each row's results start
	factors  []float32 // a factor for each row's results, which are added to out; empty to write the results
	tileRows int       // if the quantised activations are in tiles, the number of rows of a tile; otherwise 0
}

func (o *operands) begin(x, out compute.Tensor) {
	o.x, o.out, o.tileRows = values(x), values(out), 0
	o.inFloats, o.inBlocks, o.at, o.factors = o.inFloats[:0], o.inBlocks[:0], o.at[:0], o.factors[:0]
}

func (o *operands) add(inFloat, inBlock, at int) {
	o.inFloats = append(o.inFloats, int64(inFloat))
	o.inBlocks = append(o.inBlocks, int64(inBlock))
	o.at = append(o.at, int64(at))
}

// place returns the index of the first block of row r of n activations. With tiles, it is the index
// of the row in the tiles of the first blocks of all rows.
func (o *operands) place(r, n int) int {
	if o.tileRows > 0 {
		return r/o.tileRows*kernels.TileRows + r%o.tileRows
	}
	return r * rowBlocks(n)
}

// addRows adds the rows of x, of n values each, and their results in dst. The quantised activations
// must begin with row 0.
func (o *operands) addRows(dst, x compute.Tensor, n int) {
	for r := range dst.Rows {
		o.add(start(x, r), o.place(r, n), start(dst, r))
	}
}

// tileRows returns the number of rows in a tile for a product of so many rows with weights that
// take these forms, or 0 if tiles are not faster, or not possible.
func (s *step) tileRows(forms kernels.Form, rows int) int {
	if s.products.TileBytes == 0 || rows < s.products.MinTileRows || forms&^kernels.Floats != kernels.Blocks {
		return 0
	}
	return kernels.RowsPerTile(rows)
}

// call multiplies groups of a matrix with rows [from, to) of o. The results of a row go to
// out[at[row-from]:].
func (s *step) call(thread int, w *weight, matrix, group, groups int, o *operands, from, to int, out []float32, at []int64, factors []float32) {
	if from == to {
		return
	}
	a := &s.scratch[thread].product
	a.W = w.group(matrix, group)
	a.Groups, a.Blocks = int64(groups), int64(w.units())
	in := o.inBlocks
	multiply := w.product
	switch {
	case w.form == kernels.Floats:
		in, a.X = o.inFloats, unsafe.Pointer(&o.x[0])
	case w.form == kernels.Words:
		a.X = unsafe.Pointer(&s.words[0])
	case o.tileRows > 0: // from is the first row of a tile
		multiply = w.tileProduct
		a.X = unsafe.Pointer(&s.blocks[int(in[from])/kernels.TileRows*w.units()*s.products.TileBytes])
		a.TileRows, a.TileBytes, a.Memory = int64(o.tileRows), int64(s.products.TileBytes), s.scratch[thread].tiles()
	default:
		a.X = unsafe.Pointer(&s.blocks[0])
	}
	a.Out = &out[0]
	a.Rows, a.In, a.At, a.Factors = int64(to-from), &in[from], &at[0], nil
	if len(factors) > 0 {
		a.Factors = &factors[0]
	}
	multiply(a)
}

// multiply is like call, but writes the results to o.out, starting at column off of each row. If
// the last group has fewer than 16 rows, its results first go to the thread's memory.
func (s *step) multiply(thread int, w *weight, matrix, group, groups int, o *operands, from, to, off int) {
	whole := min(groups, w.out/kernels.GroupRows-group)
	factors := o.factors
	if len(factors) > 0 {
		factors = factors[from:to]
	}
	if whole > 0 {
		out := o.out[off+group*kernels.GroupRows:]
		s.call(thread, w, matrix, group, whole, o, from, to, out, o.at[from:to], factors)
	}
	if whole == groups {
		return
	}
	m := &s.scratch[thread]
	n := to - from
	m.at, m.tail = grow(m.at, n), grow(m.tail, n*kernels.GroupRows)
	for i := range n {
		m.at[i] = int64(i * kernels.GroupRows)
	}
	s.call(thread, w, matrix, group+whole, 1, o, from, to, m.tail, m.at, nil)
	column := (group + whole) * kernels.GroupRows
	for i := range n {
		dst := o.out[int(o.at[from+i])+off+column:][:w.out-column]
		for c, v := range m.tail[i*kernels.GroupRows:][:len(dst)] {
			if len(factors) > 0 {
				v = dst[c] + float32(factors[i]*v)
			}
			dst[c] = v
		}
	}
}

const (
	// partBytes is the maximum size of a part's weights. Weights of this size stay in a core's
	// second-level cache while all rows are multiplied.
	partBytes = 256 << 10
	// An operation stays on one thread if its weights have fewer bytes than soloBytes and its work
	// is less than soloWork. For such an operation, transfers between the caches of two threads
	// would cost more time than the second thread saves.
	soloBytes = 72 << 10
	soloWork  = 8 * soloBytes
	// A larger operation is divided into parts of about partWork, in the unit of the function work:
	// at most shareParts per thread, unless partBytes requires more. With several parts per thread,
	// other threads can take over parts of a slow thread.
	partWork   = 64 << 10
	shareParts = 16
)

// cut describes how an operation is divided into parts. A part is a range of groups of weight rows.
// The groups of all weights of the operation are numbered in one sequence.
type cut struct {
	each, groups int // groups per part, and groups in total
}

// work estimates the cost of multiplying groups of w with the given number of rows. The unit is the
// time to read a byte of weights. Reading a weight takes about as long as multiplying it with two
// rows.
func work(w *weight, groups, rows int) int { return groups * w.groupBytes * max(2, rows) / 2 }

// cut divides an operation on groups of w's size into parts. work is the cost of the operation, in
// the unit of the function work.
func (s *step) cut(w *weight, groups, work int) cut {
	threads, maxGroups := len(s.scratch), max(1, partBytes/w.groupBytes)
	switch {
	case threads == 1:
		return cut{maxGroups, groups}
	case groups*w.groupBytes < soloBytes && work < soloWork:
		return cut{max(1, groups), groups}
	}
	parts := max(threads, min(work/partWork, shareParts*threads))
	return cut{min(maxGroups, (groups+parts-1)/parts), groups}
}

// tiled limits the number of parts of an operation on tiles, whose multiplications are fast: a part
// reads all activations, which takes less time than multiplying them only if it has enough groups.
func (c cut) tiled(threads int) cut {
	const minGroups = 16
	c.each = max(c.each, min(minGroups, (c.groups+threads-1)/threads))
	return c
}

// long makes parts longer, of which each reads a piece of many matrices like w. Fetching memory
// ahead helps only within a piece, so a piece has at least runBytes, if that leaves each thread two
// parts.
func (c cut) long(w *weight, threads int) cut {
	const runBytes = 64 << 10
	c.each = max(c.each, min((runBytes+w.groupBytes-1)/w.groupBytes, c.groups/(2*threads)))
	return c
}

func (c cut) parts() int { return (c.groups + c.each - 1) / c.each }

func (c cut) span(i int) (from, to int) { return i * c.each, min((i+1)*c.each, c.groups) }

// product is the task of the operations that multiply rows with whole matrices, or each head with a
// separate matrix.
type product struct {
	step *step
	operands
	cut      cut
	segments []segment
}

// segment is a matrix of a product that is multiplied with operands [from, to). first is the total
// number of groups in the earlier segments. off is the first column of its results.
type segment struct {
	w        *weight
	matrix   int
	first    int
	from, to int
	off      int
}

func (p *product) part(thread, i int) {
	from, to := p.cut.span(i)
	for k := range p.segments {
		b := &p.segments[k]
		g, end := max(from-b.first, 0), min(to-b.first, b.w.groups)
		if g < end {
			p.step.multiply(thread, b.w, b.matrix, g, end-g, &p.operands, b.from, b.to, b.off)
		}
	}
}

// addMatrix appends a matrix of w, for operands [from, to). off is the first column of its results.
func (p *product) addMatrix(w *weight, matrix, from, to, off int) {
	p.segments = append(p.segments, segment{w, matrix, p.cut.groups, from, to, off})
	p.cut.groups += w.groups
}

func (p *product) run(rows int) {
	s := p.step
	w := p.segments[0].w
	p.cut = s.cut(w, p.cut.groups, work(w, p.cut.groups, rows))
	if p.tileRows > 0 {
		p.cut = p.cut.tiled(len(s.scratch))
	}
	s.pool.do(p, p.cut.parts())
}

func (s *step) MatMul(dst, x compute.Tensor, ws ...compute.Weight) {
	p := s.beginProduct(dst, x, ws...)
	off := 0
	for _, w := range ws {
		w := w.(*weight)
		p.addMatrix(w, 0, 0, dst.Rows, off)
		off += w.out
	}
	p.run(dst.Rows)
}

func (s *step) MatMulAdd(dst, x compute.Tensor, w compute.Weight) {
	p := s.beginProduct(dst, x, w)
	for range dst.Rows {
		p.factors = append(p.factors, 1)
	}
	p.addMatrix(w.(*weight), 0, 0, dst.Rows, 0)
	p.run(dst.Rows)
}

// beginProduct starts a product of the rows of x with weights. It quantises the rows to the forms
// that the weights take.
func (s *step) beginProduct(dst, x compute.Tensor, ws ...compute.Weight) *product {
	p, n := &s.product, ws[0].(*weight).in
	p.begin(x, dst)
	var forms kernels.Form
	for _, w := range ws {
		forms |= w.(*weight).form
	}
	p.tileRows = s.tileRows(forms, dst.Rows)
	p.addRows(dst, x, n)
	s.quantise(forms, p.tileRows, x, dst.Rows, 1, n, n)
	return p
}

// heads multiplies each head with its own matrix of w. The strides are the distances between heads
// in a row.
func (s *step) heads(dst, x compute.Tensor, w *weight, outStride, inStride int) {
	p := &s.product
	p.begin(x, dst)
	p.tileRows = s.tileRows(w.form, dst.Rows)
	for head := range w.matrices {
		from := head * w.in / blockValues
		if p.tileRows > 0 {
			from = head * tiles(dst.Rows, p.tileRows) * kernels.TileRows
		}
		for r := range dst.Rows {
			p.add(start(x, r)+head*inStride, from+p.place(r, w.matrices*w.in), start(dst, r)+head*outStride)
		}
		p.addMatrix(w, head, head*dst.Rows, (head+1)*dst.Rows, 0)
	}
	s.quantise(w.form, p.tileRows, x, dst.Rows, w.matrices, w.in, inStride)
	p.run(dst.Rows)
}

func (p *product) begin(x, out compute.Tensor) {
	p.operands.begin(x, out)
	p.segments, p.cut.groups = p.segments[:0], 0
}
