package gguf

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
)

// The value types of the key-value section.
const (
	kindU8 uint32 = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
	kindCount
)

// kindTypes has the Go type of the values of each kind; nil for arrays.
var kindTypes = [kindCount]reflect.Type{
	kindU8: reflect.TypeFor[uint8](), kindI8: reflect.TypeFor[int8](), kindU16: reflect.TypeFor[uint16](), kindI16: reflect.TypeFor[int16](),
	kindU32: reflect.TypeFor[uint32](), kindI32: reflect.TypeFor[int32](), kindU64: reflect.TypeFor[uint64](), kindI64: reflect.TypeFor[int64](),
	kindF32: reflect.TypeFor[float32](), kindF64: reflect.TypeFor[float64](), kindBool: reflect.TypeFor[bool](), kindString: reflect.TypeFor[string](),
}

// kindBytes has the size in bytes of a value of each kind. For strings and arrays, it is the
// minimum size in the file.
var kindBytes = [kindCount]int{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8}

func (p *parser) metadata(n int) *Metadata {
	m := NewMetadata()
	for i := 0; i < n && p.err == nil; i++ {
		at, field := p.pos, fmt.Sprintf("key %d", i)
		key := p.name(field)
		if m.Has(key) {
			p.fail(at, field, "%.100q occurs twice", key)
		}
		m.Set(key, p.value(key))
		if key == alignmentKey {
			alignment, err := alignmentOf(m)
			if err != nil {
				p.fail(at, key, "%v", err)
			}
			p.alignment = alignment
		}
	}
	return m
}

func (p *parser) kind(field string) uint32 {
	at := p.pos
	k := p.u32(field)
	if k >= kindCount {
		p.fail(at, field, "%d is not a known value type", k)
		return 0
	}
	return k
}

func (p *parser) value(key string) any {
	switch k := p.kind(key + " type"); k {
	case kindString:
		return string(p.text(key))
	case kindArray:
		return p.array(key)
	default:
		list := p.fixed(k, 1, key, func(int) string { return key })
		return reflect.ValueOf(list).Index(0).Interface()
	}
}

func (p *parser) array(key string) any {
	at := p.pos
	k := p.kind(key + " element type")
	if k == kindArray {
		p.fail(at, key+" element type", "arrays of arrays are not supported")
	}
	at = p.pos
	n := p.count(kindBytes[k], key+" length")
	if n > maxValueBytes/kindBytes[k] {
		p.fail(at, key+" length", "%d elements take more than %d bytes together", n, maxValueBytes)
	}
	switch {
	case p.err != nil:
		return nil
	case k == kindString:
		return p.strings(n, key)
	}
	return p.fixed(k, n, key, func(i int) string { return fmt.Sprintf("%s[%d]", key, i) })
}

// fixed reads n values of a kind that has a fixed size, and returns them as a slice. element names
// the field of a value, for errors.
func (p *parser) fixed(k uint32, n int, field string, element func(i int) string) any {
	at := p.pos
	b := p.take(n*kindBytes[k], field)
	list := reflect.MakeSlice(reflect.SliceOf(kindTypes[k]), n, n).Interface()
	if p.err != nil {
		return list
	}
	if k == kindBool {
		if i := slices.IndexFunc(b, func(x byte) bool { return x > 1 }); i >= 0 {
			p.fail(at+i, element(i), "%d is not a boolean", b[i])
		}
	}
	if _, err := binary.Decode(b, binary.LittleEndian, list); err != nil {
		panic(err) // the list has a type of fixed size and the length of b
	}
	return list
}

// strings reads n strings. It copies the bytes of all strings at once and returns parts of the
// copy, because a vocabulary can have 150,000 strings.
func (p *parser) strings(n int, key string) []string {
	start := p.pos
	for i := range n {
		if p.left() < 8 || binary.LittleEndian.Uint64(p.data[p.pos:]) > uint64(p.left()-8) {
			p.fail(p.pos, fmt.Sprintf("%s[%d]", key, i), "the string does not fit in the %d bytes left; the file is truncated or damaged: copy or download it again", p.left())
			return nil
		}
		p.pos += 8 + int(binary.LittleEndian.Uint64(p.data[p.pos:]))
		if p.pos-start > maxValueBytes {
			p.fail(start, key, "the strings take more than %d bytes together", maxValueBytes)
			return nil
		}
	}
	all := string(p.data[start:p.pos])
	out := make([]string, n)
	pos := 0
	for i := range out {
		size := int(binary.LittleEndian.Uint64(p.data[start+pos:]))
		out[i] = all[pos+8 : pos+8+size]
		pos += 8 + size
	}
	return out
}
