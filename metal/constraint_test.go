package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// TestConstraints answers requests with and without constraints: one step at a time, and with
// several in flight, whose masks are computed and whose tokens are read while the device runs the
// next step. The device has memory of its own or the CPU's. It runs steps at once when they are
// submitted, or as late as possible.
func TestConstraints(t *testing.T) {
	t.Parallel()
	path := modeltest.Micro(t, "micro-llama")
	want := constrained(t, path, oneByOne{open(t, metal.Options{}, emulator.Options{})}, 1)
	for _, discrete := range []bool{false, true} {
		be := open(t, metal.Options{}, emulator.Options{Discrete: discrete})
		require.Equal(t, want, constrained(t, path, be, 4))

		dev, err := emulator.Open(emulator.Options{Discrete: discrete})
		require.NoError(t, err)
		slow := &late{Device: dev}
		be, err = metal.New(slow, metal.Options{})
		require.NoError(t, err)
		require.Equal(t, want, constrained(t, path, be, 4))
		require.Greater(t, slow.overlapped, 30, "tokens must be read while the next step is in flight")
	}
}

func TestConstraintsOnGPU(t *testing.T) {
	eachGPU(t, func(t *testing.T, start starter) {
		t.Helper()
		path := modeltest.Micro(t, "micro-llama")
		want := constrained(t, path, oneByOne{start(t, metal.Options{})}, 1)
		require.Equal(t, want, constrained(t, path, start(t, metal.Options{}), 4))
	})
}

// constrained answers requests, a number of them at a time. Every second one has a constraint,
// which its answer must satisfy.
func constrained(t *testing.T, path string, be compute.Backend, atOnce int) [][]int32 {
	t.Helper()
	eng, err := engine.Open(path, be, engine.Options{Context: 128, Draft: engine.DraftOff})
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close()) }()
	const pattern = `(the|a) (cat|dog)s? [a-z]{3,9} on [0-9]{1,3} mats`
	out, finished := make([][]int32, 8), make([]string, 8)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(atOnce)
	for i := range out {
		req := generation.Request{Tokens: []int32{int32(40 + i), 300, 17}, MaxTokens: 60, Sampling: generation.Sampling{Temperature: 1, Seed: uint64(i)}}
		if i%2 == 0 {
			req.Constraint = &generation.Constraint{Regex: pattern}
		}
		group.Go(func() error {
			c, err := eng.Generate(ctx, req)
			if err != nil {
				return err
			}
			out[i] = c.Choices[0].Tokens
			if req.Constraint != nil && c.Choices[0].FinishReason == generation.FinishStop {
				finished[i] = c.Choices[0].Text
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	for i, text := range finished {
		if i%2 == 0 {
			require.Regexp(t, "^(?:"+pattern+")$", text, "answer %d", i)
		}
	}
	return out
}
