package shape

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// deviation is the standard deviation of the weights. With this value, activations have about the
// same magnitudes as in trained models.
const deviation = 0.03

// Randomize fills data, which must be whole blocks of type t, with random weights.
func Randomize(r *rand.Rand, t gguf.Type, data []byte) { gguf.Randomize(r, t, data, deviation) }

// vector returns the bytes of a float32 vector. Its values are around one for gains and around zero
// for biases.
func vector(r *rand.Rand, name string, n int) []byte {
	mean := 1.0
	switch {
	case strings.HasSuffix(name, ".bias"):
		mean = 0
	case strings.HasSuffix(name, ".ssm_a"): // the logarithm of the decay of a state is a multiple of it
		mean = -0.5
	}
	data := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(mean+0.05*r.NormFloat64())))
	}
	return data
}
