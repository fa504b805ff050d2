package shape

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// deviation is the standard deviation of the weights: it keeps activations of models this wide in the usual range.
const deviation = 0.03

// scales tells where the float16 scales of a block are, and how wide the values that they multiply spread.
var scales = map[gguf.Type]struct {
	at     []int
	spread float64
}{
	gguf.TypeQ40: {[]int{0}, 4.6},
	gguf.TypeQ50: {[]int{0}, 9.2},
	gguf.TypeQ51: {[]int{0, 2}, 9.2},
	gguf.TypeQ80: {[]int{0}, 74},
	gguf.TypeQ4K: {[]int{0, 2}, 4.6 * 32},
	gguf.TypeQ5K: {[]int{0, 2}, 9.2 * 32},
	gguf.TypeQ6K: {[]int{208}, 18.5 * 74},
}

// Randomize fills whole blocks of a type with random weights. The parts of a block that are not its scale may be any bytes.
func Randomize(r *rand.Rand, t gguf.Type, data []byte) error {
	if t.BlockSize() == 1 {
		values := make([]float32, 1<<16)
		for i := range values {
			values[i] = float32(r.NormFloat64() * deviation)
		}
		size := t.BlockBytes()
		for at := 0; at < len(data); at += len(values) * size {
			n := min(len(values), (len(data)-at)/size)
			if err := gguf.Quantize(data[at:at+n*size], t, values[:n]); err != nil {
				return err
			}
		}
		return nil
	}
	scale, ok := scales[t]
	if !ok {
		return fmt.Errorf("random weights of type %v are not supported", t)
	}
	whole := len(data) &^ 7
	for i := 0; i < whole; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], r.Uint64())
	}
	for i := whole; i < len(data); i++ {
		data[i] = byte(r.Uint32())
	}
	d := deviation / scale.spread
	for at := 0; at < len(data); at += t.BlockBytes() {
		for i, offset := range scale.at {
			v := float32(d * (0.75 + 0.5*r.Float64()))
			if i > 0 { // a minimum: about the middle of the values, so that weights are around zero
				v *= minimum(t)
			}
			binary.LittleEndian.PutUint16(data[at+offset:], gguf.F32ToF16(v))
		}
	}
	return nil
}

// minimum is what a scale has to be multiplied by for the scale of the minima. Those of the K types are subtracted and
// have 6-bit factors of their own, as spread as the scales'.
func minimum(t gguf.Type) float32 {
	switch t {
	case gguf.TypeQ4K:
		return 7.5
	case gguf.TypeQ5K:
		return 15.5
	default:
		return -15.5
	}
}

// vector gives the float32 of a vector: gains around one, biases around zero.
func vector(r *rand.Rand, name string, n int) []byte {
	mean := 1.0
	if strings.HasSuffix(name, ".bias") {
		mean = 0
	}
	data := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(mean+0.05*r.NormFloat64())))
	}
	return data
}
