package kernels

import (
	"sync"
	"unsafe"

	"github.com/ingot-run/ingot/engine/gguf"
)

// portableProducts returns the kernels of a precision. add adds the products of a block of weights
// and a block of activations.
func portableProducts(quantise func(*QuantiseArgs), add func(b *unpacked, acc *group, x unsafe.Pointer), blockBytes int) Products {
	p := Products{
		Quantise: quantise, BlockBytes: blockBytes, level: "portable", byType: map[gguf.Type]func(*ProductArgs){},
		QuantiseWords: quantiseWords, words: wordProduct,
	}
	for t := range layouts {
		if t.BlockSize() == 1 {
			p.byType[t] = func(a *ProductArgs) { floatProduct(a, t) }
		} else {
			p.byType[t] = func(a *ProductArgs) { quantProduct(a, t, add, blockBytes) }
		}
	}
	return p
}

// group holds the results of a row of activations for a group of weights.
type group [GroupRows]float32

func (a *ProductArgs) write(row, g int64, acc *group) {
	at := from(a.At, a.Rows)[row]
	out := from(after(a.Out, at+GroupRows*g), GroupRows)
	if a.Factors == nil {
		copy(out, acc[:])
		return
	}
	factor := from(a.Factors, a.Rows)[row]
	for r, v := range acc {
		out[r] += factor * v
	}
}

// productMemory is the working memory of a product. It is pooled, since a step must not allocate.
type productMemory struct {
	line  group    // one column of a group of floats
	block unpacked // one block of a group
	acc   []group  // [rows]
}

var productMemories = sync.Pool{New: func() any { return new(productMemory) }}

func floatProduct(a *ProductArgs, t gguf.Type) {
	n := layouts[t].block * int(a.Blocks)
	m := productMemories.Get().(*productMemory)
	defer productMemories.Put(m)
	line := &m.line
	for g := range a.Groups {
		w := from((*byte)(unsafe.Add(a.W, int(g)*n)), int64(n))
		for row, in := range from(a.In, a.Rows) {
			x := from(after((*float32)(a.X), in), a.Blocks)
			var acc group
			for k, v := range x {
				gguf.Dequantise(line[:], t, w[k*n/len(x):(k+1)*n/len(x)])
				for r, weight := range line {
					acc[r] += weight * v
				}
			}
			a.write(int64(row), g, &acc)
		}
	}
}

// unpacked is a block of 32 columns of a group. The value of a weight is scale[half]·w + min[half],
// where half is 0 for the first 16 columns and 1 for the others.
type unpacked struct {
	w          [32][GroupRows]int8
	scale, min [2]group
}

func quantProduct(a *ProductArgs, t gguf.Type, add func(b *unpacked, acc *group, x unsafe.Pointer), blockBytes int) {
	l, n := layouts[t], GroupBytes(t, 32*int(a.Blocks))
	ins := from(a.In, a.Rows)
	m := productMemories.Get().(*productMemory)
	defer productMemories.Put(m)
	if len(m.acc) < len(ins) {
		m.acc = make([]group, len(ins))
	}
	acc, b := m.acc[:len(ins)], &m.block
	for g := range a.Groups {
		w := from((*byte)(unsafe.Add(a.W, int(g)*n)), int64(n))
		clear(acc)
		var super []byte
		for k := range a.Blocks {
			if k%8 == 0 {
				super, w = w[:l.super], w[l.super:]
			}
			b.unpack(l, w[:l.block], super)
			w = w[l.block:]
			for row, in := range ins {
				add(b, &acc[row], unsafe.Add(a.X, int(in+k)*blockBytes))
			}
		}
		for row := range acc {
			a.write(int64(row), g, &acc[row])
		}
	}
}

// UnpackRow writes row r of a group of a quantised type without minima. It is slow.
func UnpackRow(dst []float32, t gguf.Type, packed []byte, r int) {
	l := layouts[t]
	m := productMemories.Get().(*productMemory)
	defer productMemories.Put(m)
	b := &m.block
	var super []byte
	for k := range len(dst) / 32 {
		if k%8 == 0 {
			super, packed = packed[:l.super], packed[l.super:]
		}
		b.unpack(l, packed[:l.block], super)
		packed = packed[l.block:]
		for c := range b.w {
			dst[32*k+c] = b.scale[c/16][r] * float32(b.w[c][r])
		}
	}
}

func (b *unpacked) add(acc *group, x unsafe.Pointer) {
	block := (*Block)(x)
	addProducts(b, acc, block.Q[:], &block.Sums)
}

func (b *unpacked) add8(acc *group, x unsafe.Pointer) {
	block := (*Block8)(x)
	addProducts(b, acc, block.Q[:], &block.Sums)
}

func addProducts[T int8 | int16](b *unpacked, acc *group, q []T, x *Sums) {
	var sums [2][GroupRows]int32
	for c, v := range q {
		s, w := &sums[c/16], &b.w[c]
		for r := range s {
			s[r] += int32(w[r]) * int32(v)
		}
	}
	for r := range acc {
		acc[r] += b.min[0][r]*x.Halves[0] + b.min[1][r]*x.Halves[1]
		acc[r] += x.D * (b.scale[0][r]*float32(sums[0][r]) + b.scale[1][r]*float32(sums[1][r]))
	}
}

func (b *unpacked) unpack(l layout, block, super []byte) {
	scales := block
	if len(super) > 0 {
		scales = super
	}
	b.min = [2]group{}
	for r := range GroupRows {
		d := half(scales, r)
		b.scale[0][r], b.scale[1][r] = d, d
	}
	l.unpack(b, block, super)
}

func unpackQ40(b *unpacked, block, _ []byte) { b.nibbles(block[32:], 8) }

func unpackQ41(b *unpacked, block, _ []byte) {
	b.nibbles(block[64:], 0)
	b.minima(block[32:])
}

func unpackQ50(b *unpacked, block, _ []byte) {
	b.nibbles(block[32:], 16)
	b.plane(block[288:], 1)
}

func unpackQ51(b *unpacked, block, _ []byte) {
	b.nibbles(block[64:], 0)
	b.plane(block[320:], 1)
	b.minima(block[32:])
}

func unpackQ80(b *unpacked, block, _ []byte) {
	for c := range b.w {
		for r := range GroupRows {
			b.w[c][r] = int8(block[32+64*(c/4)+4*r+c%4])
		}
	}
}

func unpackQ4K(b *unpacked, block, super []byte) {
	b.nibbles(block[32:], 0)
	for r := range GroupRows {
		d := b.scale[0][r] * float32(block[r])
		b.scale[0][r], b.scale[1][r] = d, d
		m := -half(super[32:], r) * float32(block[GroupRows+r])
		b.min[0][r], b.min[1][r] = m, m
	}
}

func unpackQ5K(b *unpacked, block, super []byte) {
	unpackQ4K(b, block, super)
	b.plane(block[288:], 1)
}

func unpackQ6K(b *unpacked, block, _ []byte) {
	b.nibbles(block[32:], 32)
	b.plane(block[288:], 2)
	b.signedScales(block)
}

func half(b []byte, i int) float32 {
	return gguf.F16ToF32(uint16(b[2*i]) | uint16(b[2*i+1])<<8)
}

func (b *unpacked) minima(src []byte) {
	for r := range GroupRows {
		b.min[0][r], b.min[1][r] = half(src, r), half(src, r)
	}
}

func unpackQ2K(b *unpacked, block, super []byte) {
	b.twos(block[32:], 0)
	for r := range GroupRows {
		m := half(super[32:], r)
		for i := range 2 {
			v := block[GroupRows*i+r]
			b.scale[i][r] *= float32(v & 15)
			b.min[i][r] = -m * float32(v>>4)
		}
	}
}

func unpackQ3K(b *unpacked, block, _ []byte) {
	b.twos(block[32:], 4)
	b.thirds(block[160:])
	b.signedScales(block)
}

// thirds adds the third bits of weights, which are a plane.
func (b *unpacked) thirds(src []byte) {
	for c := range b.w {
		for r := range GroupRows {
			b.w[c][r] += int8(src[4*r+c%4] >> (c / 4) & 1 << 2)
		}
	}
}

func (b *unpacked) twos(src []byte, offset int8) {
	for c := range b.w {
		register := c / 4
		for r := range GroupRows {
			b.w[c][r] = int8(src[64*(register/4)+4*r+c%4]>>(2*(register%4))&3) - offset
		}
	}
}

// signedScales multiplies the scales of the block's two halves by the signed bytes at the start of
// block.
func (b *unpacked) signedScales(block []byte) {
	for r := range GroupRows {
		b.scale[0][r] *= float32(int8(block[r]))
		b.scale[1][r] *= float32(int8(block[GroupRows+r]))
	}
}

func unpackIQ4NL(b *unpacked, block, _ []byte) { b.codes(block[32:], &gguf.Codes4) }

func unpackIQ4XS(b *unpacked, block, _ []byte) {
	b.codes(block[16:], &gguf.Codes4)
	for r := range GroupRows {
		d := b.scale[0][r] * float32(int8(block[r]))
		b.scale[0][r], b.scale[1][r] = d, d
	}
}

func unpackMXFP4(b *unpacked, block, _ []byte) {
	b.codes(block[16:], &gguf.CodesMX)
	for r := range GroupRows {
		d := gguf.PowerMX(block[r])
		b.scale[0][r], b.scale[1][r] = d, d
	}
}

func (b *unpacked) codes(src []byte, values *[16]int8) {
	for c := range 16 {
		for r := range GroupRows {
			q := src[64*(c/4)+4*r+c%4]
			b.w[c][r], b.w[c+16][r] = values[q&15], values[q>>4]
		}
	}
}

func (b *unpacked) nibbles(src []byte, offset int8) {
	for c := range 16 {
		for r := range GroupRows {
			q := src[64*(c/4)+4*r+c%4]
			b.w[c][r], b.w[c+16][r] = int8(q&15)-offset, int8(q>>4)-offset
		}
	}
}

// plane adds the given number of bits above the low four to each weight. 64 bytes of src have these
// bits for 8/bits registers.
func (b *unpacked) plane(src []byte, bits int) {
	n := 8 / bits
	for c := range b.w {
		register := c / 4
		for r := range GroupRows {
			v := src[64*(register/n)+4*r+c%4] >> (bits * (register % n)) & (1<<bits - 1)
			b.w[c][r] += int8(v << 4)
		}
	}
}
