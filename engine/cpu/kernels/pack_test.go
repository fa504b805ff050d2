package kernels

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

// TestPack packs rows, unpacks them, and compares the result with the dequantised rows.
func TestPack(t *testing.T) {
	t.Parallel()
	for _, kind := range gguf.Types() {
		for _, rows := range []int{16, 1, 11} {
			n := 768
			if FormOf(kind, n) == Words {
				n = 761 // TestPackWords has whole blocks
			}
			r := rand.New(rand.NewPCG(uint64(kind), uint64(rows)))
			data := randomWeights(t, r, kind, rows, n)
			packed := pack(t, kind, data, rows, n)
			require.Len(t, packed, GroupBytes(kind, n))
			got := unpackGroup(kind, packed, n)
			want := make([]float32, n)
			for row := range GroupRows {
				clear(want)
				if row < rows {
					gguf.Dequantise(want, kind, data[row*len(data)/rows:(row+1)*len(data)/rows])
				}
				for k, v := range want {
					require.InDelta(t, v, got[k][row], 1e-6, "%v, row %d, column %d", kind, row, k)
				}
			}
		}
	}
}

// TestUnpackRow: a row of a packed group has the same bits as the dequantised row.
func TestUnpackRow(t *testing.T) {
	t.Parallel()
	for _, kind := range []gguf.Type{gguf.TypeNVFP4F32, gguf.TypeQ40, gguf.TypeQ6K} {
		const n, rows = 768, 16
		data := randomWeights(t, rand.New(rand.NewPCG(1, 2)), kind, rows, n)
		packed := pack(t, kind, data, rows, n)
		got, want := make([]float32, n), make([]float32, n)
		for row := range rows {
			UnpackRow(got, kind, packed, row)
			gguf.Dequantise(want, kind, data[row*len(data)/rows:(row+1)*len(data)/rows])
			require.Equal(t, want, got, kind)
		}
	}
}

// unpackGroup returns the values of the 16 rows for each column.
func unpackGroup(kind gguf.Type, packed []byte, n int) []group {
	columns := make([]group, n)
	l := layouts[kind]
	if FormOf(kind, n) == Floats {
		for k := range columns {
			gguf.Dequantise(columns[k][:], kind, packed[k*l.block:(k+1)*l.block])
		}
		return columns
	}
	var super []byte
	var b unpacked
	for k := range n / 32 {
		if k%8 == 0 {
			super, packed = packed[:l.super], packed[l.super:]
		}
		b.unpack(l, packed[:l.block], super)
		packed = packed[l.block:]
		for c := range 32 {
			for r := range GroupRows {
				columns[32*k+c][r] = b.scale[c/16][r]*float32(b.w[c][r]) + b.min[c/16][r]
			}
		}
	}
	return columns
}
