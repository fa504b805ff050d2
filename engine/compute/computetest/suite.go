// Package computetest is the suite that every compute.Backend has to pass: each operation of compute.Step is compared with
// plain float64 code on random shapes, views and ragged batches, and each of its rows has to come out the same, bit for
// bit, whichever rows it is computed with.
//
// How far a result may be from the exact one follows from what a backend may do: sum in float32 in any order; round
// activations, and weights other than F32, to float16; keep keys and values in float16 where a cache is of F32; and quantise the activations that
// a weight of blocks multiplies to 8 bits in runs of up to 256. See approx.go for the bounds. The order of its sums and the
// places where it rounds have to depend on the row alone.
package computetest

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
)

// check is one part of the suite. It returns what is wrong with the backend of r.
type check struct {
	name string
	run  func(r *rig) error
}

// checks is the whole suite, in the order of compute.Step.
var checks = []check{
	{"Memory", checkMemory},
	{"Embed", checkEmbed},
	{"Gather", checkGather},
	{"RMSNorm", checkRMSNorm},
	{"MatMul", checkMatMul},
	{"MatMulAdd", checkMatMulAdd},
	{"GatedMatMul", checkGatedMatMul},
	{"RopeStore", checkRopeStore},
	{"Latents", checkLatents},
	{"Absorb", checkAbsorb},
	{"Attention", checkAttention},
	{"AttentionMLA", checkAttentionMLA},
	{"Expand", checkExpand},
	{"Route", checkRoute},
	{"RouteTies", checkRouteTies},
	{"GatedExperts", checkGatedExperts},
	{"ExpertsAdd", checkExpertsAdd},
	{"Top", checkTop},
	{"Checkpoint", checkCheckpoint},
	{"Sequence", checkSequence},
	{"InFlight", checkInFlight},
}

// Run runs the suite, a subtest a check. open starts the backend under test, afresh for each; Run closes it.
func Run(t *testing.T, open func(tb testing.TB) compute.Backend) {
	t.Helper()
	run(t, open, false)
}

// RunFast is Run for a backend of fast arithmetic, which may give a row other bits in other company: there, too, each row is
// compared with what it should be, and not with itself.
func RunFast(t *testing.T, open func(tb testing.TB) compute.Backend) {
	t.Helper()
	run(t, open, true)
}

func run(t *testing.T, open func(tb testing.TB) compute.Backend, fast bool) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			be := open(t)
			r := newRig(t, be, c.name)
			r.fast = fast
			require.NoError(t, c.run(r))
			require.NoError(t, be.Close())
		})
	}
}

// rig is a backend under test and what the checks do with it. Its random values are the same in every run of a check.
type rig struct {
	tb   testing.TB
	be   compute.Backend
	rand *rand.Rand
	fast bool // whether a row's bits may depend on its company
}

func newRig(tb testing.TB, be compute.Backend, name string) *rig {
	tb.Helper()
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash takes every write
	return &rig{tb: tb, be: be, rand: rand.New(rand.NewPCG(h.Sum64(), 0))}
}
