package gguf

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// half64 returns a binary16 value by its definition, in float64.
func half64(h uint16) float64 {
	sign := 1.0
	if h>>15 == 1 {
		sign = -1
	}
	exp, mant := int(h>>10)&31, float64(h&1023)
	switch {
	case exp == 31 && mant != 0:
		return math.NaN()
	case exp == 31:
		return sign * math.Inf(1)
	case exp == 0:
		return sign * math.Ldexp(mant, -24)
	}
	return sign * math.Ldexp(1024+mant, exp-25)
}

func TestF16Widens(t *testing.T) {
	t.Parallel()
	for i := range 1 << 16 {
		h := uint16(i)
		got, want := F16ToF32(h), half64(h)
		if math.IsNaN(want) {
			require.True(t, math.IsNaN(float64(got)), "%#04x", h)
			require.Equal(t, h>>15 == 1, math.Signbit(float64(got)))
			require.Equal(t, uint32(h&1023)<<13, math.Float32bits(got)&(1<<23-1), "%#04x: payload", h)
			continue
		}
		if math.Float64bits(want) != math.Float64bits(float64(got)) {
			t.Fatalf("%#04x: got %v, want %v", h, got, want)
		}
	}
}

func TestF16Narrows(t *testing.T) {
	t.Parallel()
	for i := range 1 << 16 {
		h := uint16(i)
		back := F32ToF16(F16ToF32(h))
		want := h
		if math.IsNaN(half64(h)) {
			want |= 0x200 // a NaN becomes quiet and keeps its sign and payload
		}
		if back != want {
			t.Fatalf("%#04x: got %#04x, want %#04x", h, back, want)
		}
	}
}

// TestF16Rounds checks that the value halfway between two neighbours rounds to the even neighbour,
// and that the float32 values next to it round to the nearer neighbour.
func TestF16Rounds(t *testing.T) {
	t.Parallel()
	const last = 0x7bff // 65504
	for h := uint16(0); h <= last; h++ {
		next := 65536.0 // the value after the largest one if the range of exponents continued
		if h < last {
			next = half64(h + 1)
		}
		middle := float32((half64(h) + next) / 2) // exact: one bit more than a half
		even := h + h&1
		got := [4]uint16{F32ToF16(math.Nextafter32(middle, 0)), F32ToF16(middle), F32ToF16(math.Nextafter32(middle, 1e9)), F32ToF16(-middle)}
		if want := [4]uint16{h, even, h + 1, even | 0x8000}; got != want {
			t.Fatalf("float32 values around the middle after %#04x: got %#04x, want %#04x", h, got, want)
		}
	}
	for _, f := range []float32{65536, 1e30, math.MaxFloat32, float32(math.Inf(1))} {
		require.Equal(t, uint16(0x7c00), F32ToF16(f))
		require.Equal(t, uint16(0xfc00), F32ToF16(-f))
	}
	require.Equal(t, uint16(0), F32ToF16(math.SmallestNonzeroFloat32))
	require.Equal(t, uint16(0x8000), F32ToF16(float32(math.Copysign(0, -1))))
}

func TestBF16(t *testing.T) {
	t.Parallel()
	for i := range 1 << 16 {
		h := uint16(i)
		f := BF16ToF32(h)
		if math.Float32bits(f) != uint32(h)<<16 {
			t.Fatalf("bfloat16 %#04x widens to %v", h, f)
		}
		if f != f {
			if got := F32ToBF16(f); got != h|0x40 {
				t.Fatalf("NaN %#04x widens and narrows to %#04x", h, got)
			}
			continue
		}
		if h&0x7f80 == 0x7f80 { // infinite: there is no next value
			require.Equal(t, h, F32ToBF16(f))
			continue
		}
		middle := uint32(h)<<16 | 0x8000
		got := [4]uint16{F32ToBF16(f)}
		for k, bits := range []uint32{middle - 1, middle, middle + 1} {
			got[k+1] = F32ToBF16(math.Float32frombits(bits))
		}
		if want := [4]uint16{h, h, h + h&1, h + 1}; got != want {
			t.Fatalf("float32 values around the middle after %#04x: got %#04x, want %#04x", h, got, want)
		}
	}
	// The upper half of this NaN alone would be an infinity.
	require.Equal(t, uint16(0x7fc0), F32ToBF16(math.Float32frombits(0x7f800001)))
}
