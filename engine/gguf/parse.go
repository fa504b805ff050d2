package gguf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

const (
	magic            = "GGUF"
	magicField       = "magic"
	alignmentKey     = "general.alignment"
	defaultAlignment = 32
	maxNameBytes     = 1<<16 - 1 // the format's limit on a key
	maxDims          = 4
	maxValueBytes    = 1 << 28 // maximum of one metadata value; a vocabulary has about 10 MB
	firstEntries     = 1 << 12 // maximum number of entries for which memory is allocated in advance, before they are read
)

// FormatError describes an error in the content of a file and its position.
type FormatError struct {
	Path   string
	Field  string // the field that was being read, such as `tensor "output.weight" offset`
	Offset int64  // offset of the field's first byte in the file
	Reason string
}

func (e *FormatError) Error() string {
	if e.Field == magicField {
		return fmt.Sprintf("%s is not a GGUF file: %s", e.Path, e.Reason)
	}
	return fmt.Sprintf("read GGUF file %s: %.200s at byte %d: %s", e.Path, e.Field, e.Offset, e.Reason)
}

// parser reads data from the beginning to the end. After the first error, everything that it reads
// is zero or empty. Before it allocates memory for a number of items, it checks that the remaining
// bytes can hold them.
type parser struct {
	path      string
	data      []byte
	pos       int
	alignment uint64
	err       error // the first error, a *FormatError
}

func (p *parser) fail(at int, field, format string, args ...any) {
	if p.err == nil {
		p.err = &FormatError{Path: p.path, Field: field, Offset: int64(at), Reason: fmt.Sprintf(format, args...)}
	}
}

func (p *parser) left() int { return len(p.data) - p.pos }

// take returns the next n bytes, or nil after an error.
func (p *parser) take(n int, field string) []byte {
	if n > p.left() {
		p.fail(p.pos, field, "needs %d bytes, the file has %d left; the file is truncated or damaged: copy or download it again", n, p.left())
	}
	if p.err != nil {
		return nil
	}
	b := p.data[p.pos : p.pos+n : p.pos+n]
	p.pos += n
	return b
}

func (p *parser) u32(field string) uint32 {
	if b := p.take(4, field); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (p *parser) u64(field string) uint64 {
	if b := p.take(8, field); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads a number of items, which is stored as a u64. each is the minimum size of an item in
// bytes. It is an error if the bytes that are left cannot hold so many items.
func (p *parser) count(each int, field string) int {
	at := p.pos
	n := p.u64(field)
	if n > uint64(p.left()/each) {
		p.fail(at, field, "%d is more than the %d bytes left can hold; the file is truncated or damaged: copy or download it again", n, p.left())
		return 0
	}
	return int(n)
}

// text reads a length and then that number of bytes. It returns a part of the file's data, not a
// copy.
func (p *parser) text(field string) []byte {
	at := p.pos
	n := p.count(1, field)
	if n > maxValueBytes {
		p.fail(at, field, "%d bytes are too many (at most %d)", n, maxValueBytes)
	}
	return p.take(n, field)
}

func (p *parser) name(field string) string {
	at := p.pos
	b := p.text(field)
	if len(b) == 0 || len(b) > maxNameBytes {
		p.fail(at, field, "has %d bytes, but must have 1 to %d", len(b), maxNameBytes)
	}
	return string(b)
}

// parse reads a whole file. The data of the tensors are parts of the given data; everything else is
// copied.
func parse(path string, data []byte) (*Metadata, []Tensor, error) {
	p := &parser{path: path, data: data, alignment: defaultAlignment}
	tensors, keys := p.header()
	meta := p.metadata(keys)
	list := p.tensors(tensors)
	if p.err != nil {
		return nil, nil, p.err
	}
	return meta, list, nil
}

// The minimum size of an entry in bytes. An entry of the metadata has the length of the key, at
// least one byte of the key, a type and a value. An entry of a tensor has a name, n_dims, at least
// one dimension, a type and an offset.
const (
	minKeyBytes    = 8 + 1 + 4 + 1
	minTensorBytes = 8 + 1 + 4 + 8 + 4 + 8
)

func (p *parser) header() (tensors, keys int) {
	if b := p.take(4, magicField); string(b) != magic {
		p.fail(0, magicField, "it begins with %q", b)
	}
	switch version := p.u32("version"); {
	case version != 0 && version&0xffff == 0:
		p.fail(4, "version", "the file is big-endian (version %d), but only little-endian files are supported; download or convert a little-endian file", bits.ReverseBytes32(version))
	case version != 2 && version != 3:
		p.fail(4, "version", "%d is not supported (supported: 2 and 3)", version)
	}
	tensors = p.count(minTensorBytes, "tensor count")
	return tensors, p.count(minKeyBytes, "key count")
}

type info struct {
	tensor Tensor
	offset uint64 // offset from the start of the data section
	bytes  uint64
	at     int // where the file stores the offset, for errors
}

func (p *parser) tensors(n int) []Tensor {
	infos := make([]info, 0, min(n, firstEntries))
	seen := make(map[string]bool, min(n, firstEntries))
	for i := 0; i < n && p.err == nil; i++ {
		at := p.pos
		in := p.tensorInfo(i)
		if seen[in.tensor.Name] {
			p.fail(at, fmt.Sprintf("tensor %d name", i), "%.100q occurs twice", in.tensor.Name)
		}
		seen[in.tensor.Name] = true
		infos = append(infos, in)
	}
	start := alignUp(uint64(p.pos), p.alignment)
	if p.err == nil {
		p.checkPlaces(infos, start)
	}
	if p.err != nil {
		return nil
	}
	list := make([]Tensor, len(infos))
	for i, in := range infos {
		from := start + in.offset
		in.tensor.Data = p.data[from : from+in.bytes : from+in.bytes]
		list[i] = in.tensor
	}
	return list
}

func (p *parser) tensorInfo(i int) info {
	name := p.name(fmt.Sprintf("tensor %d name", i))
	shapeAt := p.pos
	shape, elements := p.shape(name)
	typeAt := p.pos
	t := Type(p.u32(tensorField(name, "type")))
	if !t.InFiles() {
		p.fail(typeAt, tensorField(name, "type"), "%v", t.unsupported())
	}
	if p.err != nil {
		return info{}
	}
	row, err := t.RowBytes(shape[0])
	if err != nil {
		p.fail(shapeAt, tensorField(name, "shape"), "%v", err)
	}
	high, bytes := bits.Mul64(uint64(row), elements/uint64(shape[0]))
	if high != 0 || bytes > uint64(len(p.data)) {
		p.fail(shapeAt, tensorField(name, "shape"), "%v of type %v takes more bytes than the file has (%d); the file is truncated or damaged: copy or download it again", shape, t, len(p.data))
	}
	at := p.pos
	offset := p.u64(tensorField(name, "offset"))
	return info{Tensor{Name: name, Type: t, Shape: shape}, offset, bytes, at}
}

func (p *parser) shape(name string) (shape []int, elements uint64) {
	at, field := p.pos, tensorField(name, "shape")
	dims := p.u32(field)
	if dims < 1 || dims > maxDims {
		p.fail(at, field, "has %d dimensions, but must have 1 to %d", dims, maxDims)
		return nil, 0
	}
	shape = make([]int, dims)
	elements = 1
	for d := range shape {
		at := p.pos
		n := p.u64(field)
		high, product := bits.Mul64(elements, n)
		if n == 0 || high != 0 || product > uint64(math.MaxInt) {
			p.fail(at, field, "dimension %d is %d; each dimension must be at least 1, and their product must fit into 63 bits", d, n)
			return nil, 0
		}
		shape[d], elements = int(n), product
	}
	return shape, elements
}

func tensorField(name, field string) string { return fmt.Sprintf("tensor %.100q %s", name, field) }

func alignmentOf(meta *Metadata) (uint64, error) {
	if !meta.Has(alignmentKey) {
		return defaultAlignment, nil
	}
	a, err := meta.Uint(alignmentKey)
	if err != nil {
		return 0, err
	}
	if a == 0 || a&(a-1) != 0 || a > 1<<31 {
		return 0, fmt.Errorf("the alignment %d is not a power of two up to 2^31", a)
	}
	return a, nil
}

// checkPlaces checks that each tensor's data are aligned and inside the file, and that no two
// tensors share a byte. start is the position of the data section in the file.
func (p *parser) checkPlaces(infos []info, start uint64) {
	size := uint64(len(p.data))
	for _, in := range infos {
		field := tensorField(in.tensor.Name, "offset")
		if in.offset%p.alignment != 0 {
			p.fail(in.at, field, "%d is not a multiple of the alignment %d", in.offset, p.alignment)
		}
		if start > size || in.offset > size-start || in.bytes > size-start-in.offset {
			p.fail(in.at, field, "the tensor's %d bytes at offset %d of the data section, which begins at byte %d, are not in the file of %d bytes; the file is truncated or damaged: copy or download it again",
				in.bytes, in.offset, start, size)
		}
	}
	sorted := slices.Clone(infos)
	slices.SortFunc(sorted, func(a, b info) int { return cmp.Compare(a.offset, b.offset) })
	for i := 1; i < len(sorted); i++ {
		a, b := sorted[i-1], sorted[i]
		if a.offset+a.bytes > b.offset {
			p.fail(b.at, tensorField(b.tensor.Name, "offset"), "%d lies within the data of tensor %.100q, which has %d bytes from offset %d on",
				b.offset, a.tensor.Name, a.bytes, a.offset)
		}
	}
}

func alignUp(n, alignment uint64) uint64 { return (n + alignment - 1) &^ (alignment - 1) }
