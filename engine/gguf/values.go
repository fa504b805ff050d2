package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
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

// kindBytes has the size in bytes of a value of each kind. For strings and arrays, it is the minimum size in the file.
var kindBytes = [kindCount]int{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8}

func (p *parser) metadata(n int) (*Metadata, error) {
	m := NewMetadata()
	for i := range n {
		at := p.pos
		key, err := p.name(fmt.Sprintf("key %d", i))
		if err != nil {
			return nil, err
		}
		if m.Has(key) {
			return nil, p.fail(at, fmt.Sprintf("key %d", i), "%q occurs twice", key)
		}
		v, err := p.value(key)
		if err != nil {
			return nil, err
		}
		m.Set(key, v)
		if key == alignmentKey {
			if p.alignment, err = alignmentOf(m); err != nil {
				return nil, p.fail(at, key, "%v", err)
			}
		}
	}
	return m, nil
}

func (p *parser) kind(field string) (uint32, error) {
	at := p.pos
	k, err := p.u32(field)
	if err != nil {
		return 0, err
	}
	if k >= kindCount {
		return 0, p.fail(at, field, "%d is not a known value type", k)
	}
	return k, nil
}

func (p *parser) value(key string) (any, error) {
	k, err := p.kind(key + " type")
	if err != nil {
		return nil, err
	}
	switch k {
	case kindString:
		b, err := p.text(key)
		if err != nil {
			return nil, err
		}
		return string(b), nil
	case kindArray:
		return p.array(key)
	}
	at := p.pos
	b, err := p.take(kindBytes[k], key)
	if err != nil {
		return nil, err
	}
	switch k {
	case kindU8:
		return b[0], nil
	case kindI8:
		return int8(b[0]), nil
	case kindU16:
		return binary.LittleEndian.Uint16(b), nil
	case kindI16:
		return int16(binary.LittleEndian.Uint16(b)), nil
	case kindU32:
		return binary.LittleEndian.Uint32(b), nil
	case kindI32:
		return int32(binary.LittleEndian.Uint32(b)), nil
	case kindF32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
	case kindU64:
		return binary.LittleEndian.Uint64(b), nil
	case kindI64:
		return int64(binary.LittleEndian.Uint64(b)), nil
	case kindF64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
	}
	if b[0] > 1 {
		return nil, p.fail(at, key, "%d is not a boolean", b[0])
	}
	return b[0] == 1, nil
}

func (p *parser) array(key string) (any, error) {
	at := p.pos
	k, err := p.kind(key + " element type")
	if err != nil {
		return nil, err
	}
	if k == kindArray {
		return nil, p.fail(at, key+" element type", "arrays of arrays are not supported")
	}
	at = p.pos
	n, err := p.count(kindBytes[k], key+" length")
	if err != nil {
		return nil, err
	}
	if n > maxValueBytes/kindBytes[k] {
		return nil, p.fail(at, key+" length", "%d elements take more than %d bytes together", n, maxValueBytes)
	}
	if k == kindString {
		return p.strings(n, key)
	}
	at = p.pos
	b, err := p.take(n*kindBytes[k], key)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	switch k {
	case kindU8:
		return append([]uint8{}, b...), nil
	case kindI8:
		return elements(n, b, 1, func(b []byte) int8 { return int8(b[0]) }), nil
	case kindU16:
		return elements(n, b, 2, le.Uint16), nil
	case kindI16:
		return elements(n, b, 2, func(b []byte) int16 { return int16(le.Uint16(b)) }), nil
	case kindU32:
		return elements(n, b, 4, le.Uint32), nil
	case kindI32:
		return elements(n, b, 4, func(b []byte) int32 { return int32(le.Uint32(b)) }), nil
	case kindF32:
		return elements(n, b, 4, func(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) }), nil
	case kindU64:
		return elements(n, b, 8, le.Uint64), nil
	case kindI64:
		return elements(n, b, 8, func(b []byte) int64 { return int64(le.Uint64(b)) }), nil
	case kindF64:
		return elements(n, b, 8, func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }), nil
	}
	for i, x := range b {
		if x > 1 {
			return nil, p.fail(at+i, fmt.Sprintf("%s[%d]", key, i), "%d is not a boolean", x)
		}
	}
	return elements(n, b, 1, func(b []byte) bool { return b[0] == 1 }), nil
}

func elements[T any](n int, b []byte, size int, get func([]byte) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = get(b[i*size:])
	}
	return out
}

// strings reads n strings. It copies the bytes of all strings at once and returns parts of the copy, because a vocabulary can have 150,000
// strings.
func (p *parser) strings(n int, key string) ([]string, error) {
	start := p.pos
	for i := range n {
		if p.left() < 8 || binary.LittleEndian.Uint64(p.data[p.pos:]) > uint64(p.left()-8) {
			return nil, p.fail(p.pos, fmt.Sprintf("%s[%d]", key, i), "the string does not fit in the %d bytes left; the file is truncated or damaged: copy or download it again", p.left())
		}
		p.pos += 8 + int(binary.LittleEndian.Uint64(p.data[p.pos:]))
		if p.pos-start > maxValueBytes {
			return nil, p.fail(start, key, "the strings take more than %d bytes together", maxValueBytes)
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
	return out, nil
}
