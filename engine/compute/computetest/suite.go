// Package computetest is the suite that every compute.Backend must pass. It compares each operation
// of compute.Step with plain float64 code on random shapes, views, and batches with sequences of
// different lengths. It also checks batch invariance: a row has the same bits in any batch.
//
// The tolerances follow from what a backend may do: sum in float32 in any order; round activations,
// and weights other than F32, to float16; store keys and values as float16 in a cache of F32; and,
// for products with block-quantised weights, quantise activations to 12 bits in runs of 32 values.
// A backend that quantises them to 8 bits fails, unless its precision is compute.Fast. See
// approx.go for the tolerances. The order of sums and the points of rounding must depend on the row
// alone.
package computetest

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// check is one part of the suite. run fails the test of r at the first fault that it finds in the
// backend of r.
type check struct {
	name string
	run  func(r *rig)
}

var checks = []check{
	{"Memory", checkMemory},
	{"Embed", checkEmbed},
	{"Gather", checkGather},
	{"RMSNorm", checkRMSNorm},
	{"RMSNormAdd", checkRMSNormAdd},
	{"Affine", checkAffine},
	{"SoftCap", checkSoftCap},
	{"Activate", checkActivate},
	{"MatMul", checkMatMul},
	{"MatMulAdd", checkMatMulAdd},
	{"GatedMatMul", checkGatedMatMul},
	{"RopeStore", checkRopeStore},
	{"Latents", checkLatents},
	{"Absorb", checkAbsorb},
	{"Attention", checkAttention},
	{"AttentionMLA", checkAttentionMLA},
	{"ShortConv", checkShortConv},
	{"Expand", checkExpand},
	{"Route", checkRoute},
	{"RouteTies", checkRouteTies},
	{"GatedExperts", checkGatedExperts},
	{"ExpertsAdd", checkExpertsAdd},
	{"States", checkStates},
	{"Convolve", checkConvolve},
	{"DeltaNet", checkDeltaNet},
	{"Scan", checkScan},
	{"GatedNorm", checkGatedNorm},
	{"Gate", checkGate},
	{"Top", checkTop},
	{"Draw", checkDraw},
	{"Checkpoint", checkCheckpoint},
	{"Sequence", checkSequence},
	{"Pairs", checkPairs},
	{"PairsOfRows", checkPairsOfRows},
	{"InFlight", checkInFlight},
	{"Await", checkAwait},
}

// Products are the names of the checks of operations that multiply several rows with weights, alone
// and after other operations.
var Products = []string{"MatMul", "MatMulAdd", "GatedMatMul", "Absorb", "Expand", "GatedExperts", "ExpertsAdd", "Sequence", "PairsOfRows", "InFlight"}

// Tiles are the names of the checks of operations for which a backend may have kernels for tiles of
// rows: products, attention, and those of several operations.
var Tiles = append([]string{"Attention", "AttentionMLA", "Await"}, Products...)

// Options limit what Run computes. The zero value computes everything.
type Options struct {
	// Brief computes each operation with only three batches: all rows, a single row and some rows.
	// It is for a second build of kernels that already passed the suite, such as a build that
	// checks memory accesses.
	Brief bool
	// Fast is for a backend with fast arithmetic, which need not be batch-invariant. Where the
	// suite otherwise compares the bits of a row in two batches, it compares the row with its
	// expected values.
	Fast bool
	// Precision is the backend's precision. It decides how far products of quantised weights may be
	// from their expected values. With compute.Fast they must be batch-invariant as well.
	Precision compute.Precision
	// Weights and Pages are the types of weights and of KV pages; nil for all. Some checks need
	// pages of F32 or F16. A few types are enough for kernels of which all types are tested
	// elsewhere.
	Weights, Pages []gguf.Type
	// Only are the names of the checks that are run; nil for all.
	Only []string
}

// Run runs the suite, one subtest per check. It calls the function open to start a new backend,
// which it closes.
func Run(t *testing.T, open func(tb testing.TB) compute.Backend, o Options) {
	t.Helper()
	be := open(t)
	for _, c := range checks {
		if o.Only != nil && !slices.Contains(o.Only, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, be, c.name)
			r.fast, r.brief, r.precision = o.Fast, o.Brief, o.Precision
			if o.Weights != nil {
				r.types = o.Weights
			}
			if o.Pages != nil {
				r.pages = o.Pages
			}
			c.run(r)
		})
	}
	require.NoError(t, be.Close())
}

// rig is a backend under test, with methods that the checks share. Its random values are the same
// in every run of a check.
type rig struct {
	tb    testing.TB
	be    compute.Backend
	rand  *rand.Rand
	fast  bool // the bits of a row may depend on its batch
	brief bool // each operation is computed with only three batches
	pool  []float32
	what  string // the present test case, for errors

	precision compute.Precision

	types []gguf.Type // of weights
	pages []gguf.Type // of KV pages
}

func newRig(tb testing.TB, be compute.Backend, name string) *rig {
	tb.Helper()
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // writing to a hash never fails
	return &rig{tb: tb, be: be, rand: rand.New(rand.NewPCG(h.Sum64(), 0)), types: gguf.Types(), pages: gguf.CacheTypes()}
}
