package apple

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
)

// micro opens a micro model in an engine on a device, and reads the model's references.
func micro(t *testing.T, d *Device, name string) (*engine.Engine, []modeltest.Case) {
	t.Helper()
	path := modeltest.Micro(t, name)
	be, err := metal.New(d, metal.Options{})
	require.NoError(t, err)
	eng, err := engine.Open(path, be, engine.Options{Draft: engine.DraftOff, Context: 256})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close()) })
	return eng, modeltest.Cases(t, path)
}

func generate(t *testing.T, eng *engine.Engine, c modeltest.Case) ([]int32, error) {
	t.Helper()
	done, err := eng.Generate(t.Context(), generation.Request{Tokens: c.PromptTokens, MaxTokens: len(c.GreedyTokens), IgnoreEOS: true})
	if err != nil {
		return nil, err
	}
	return done.Choices[0].Tokens, nil
}

// TestGeneration runs whole generations with both micro models, from the mapped file to the last
// token.
func TestGeneration(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"micro-llama", "micro-glm"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s := carriedOut(t)
			eng, cases := micro(t, d, name)
			for _, c := range cases {
				tokens, err := generate(t, eng, c)
				require.NoError(t, err)
				require.Equal(t, c.GreedyTokens, tokens)
			}
			require.NoError(t, eng.Close())
			require.Empty(t, s.Live())
		})
	}
}

// TestGenerationGoesOnAfterAFault checks that a fault fails only the requests of one step. The step
// has a prompt, or is one of several in flight.
func TestGenerationGoesOnAfterAFault(t *testing.T) {
	t.Parallel()
	d, s := carriedOut(t)
	eng, cases := micro(t, d, "micro-glm")
	require.Greater(t, len(cases[0].GreedyTokens), 12)
	for _, step := range []int{0, 1, 4, 8, 11} {
		s.Fail(gpuFault, step, "Caused GPU Hang Error (00000003:kIOGPUCommandBufferCallbackErrorHang)")
		_, err := generate(t, eng, cases[0])
		require.ErrorContains(t, err, "Caused GPU Hang Error")
		tokens, err := generate(t, eng, cases[0])
		require.NoError(t, err)
		require.Equal(t, cases[0].GreedyTokens, tokens)
	}
	require.Equal(t, 1+5, s.Sent("MTLDevice", "newCommandQueue"))
	require.NoError(t, eng.Close())
	require.Empty(t, s.Live())
}

// TestGenerationWaits checks that a generation has two command buffers per step, and waits for the
// GPU at most once per step.
func TestGenerationWaits(t *testing.T) {
	t.Parallel()
	d, s := carriedOut(t)
	eng, cases := micro(t, d, "micro-llama")
	commits, waits := s.Sent("MTLCommandBuffer", "commit"), s.Sent("MTLCommandBuffer", "waitUntilCompleted")
	tokens, err := generate(t, eng, cases[0])
	require.NoError(t, err)
	require.Equal(t, 2*len(tokens), s.Sent("MTLCommandBuffer", "commit")-commits)
	require.LessOrEqual(t, s.Sent("MTLCommandBuffer", "waitUntilCompleted")-waits, len(tokens))
}

// TestModelTooLarge checks that a model that does not fit into the GPU's memory is refused, and
// that no object leaks.
func TestModelTooLarge(t *testing.T) {
	t.Parallel()
	d, s := carriedOut(t)
	s.Fail(noBuffer, 26, "none")
	be, err := metal.New(d, metal.Options{})
	require.NoError(t, err)
	_, err = engine.Open("../../engine/model/testdata/micro-glm.gguf", be, engine.Options{Context: 256})
	require.ErrorIs(t, err, metal.ErrMemory)
	require.Regexp(t, `load \S+micro-glm\.gguf: tensor \S+: `, err.Error())
	require.Empty(t, s.Live())
}

// TestDriverConformance runs the conformance suite of backends with this driver: on a Mac's GPU or,
// on other machines, with the fake. `make test` runs it without the race detector, which would slow
// down the computation of expected values.
func TestDriverConformance(t *testing.T) {
	t.Parallel()
	suite := computetest.Options{Brief: true} // package metal runs the whole suite with the same kernels on the emulator
	if d, err := Open(); err == nil {
		require.NoError(t, d.Close())
		suite = computetest.Options{}
	}
	computetest.Run(t, func(tb testing.TB) compute.Backend {
		tb.Helper()
		d, err := Open()
		if errors.Is(err, metal.ErrUnsupported) {
			d, _ = carriedOut(tb)
			err = nil
		}
		require.NoError(tb, err)
		be, err := metal.New(d, metal.Options{})
		require.NoError(tb, err)
		return be
	}, suite)
}
