package metal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// oneByOne is a backend with one step in flight: each step is waited for before the next one
// begins.
type oneByOne struct{ compute.Backend }

func (oneByOne) MaxInFlight() int { return 1 }

// TestStepsInFlight answers greedy and sampled requests with several steps in flight and with one
// step in flight. Only the last digits of log-probabilities may differ.
func TestStepsInFlight(t *testing.T) {
	t.Parallel()
	for _, name := range modeltest.Micros(t) {
		t.Run(name, func(t *testing.T) {
			path := modeltest.Micro(t, name)
			several := open(t, metal.Options{}, emulator.Options{})
			waiting := open(t, metal.Options{}, emulator.Options{})
			want := answerMix(t, path, oneByOne{waiting})
			require.True(t, slices.ContainsFunc(want, func(c generation.Completion) bool {
				return c.Choices[0].FinishReason == generation.FinishStop && len(c.Choices[0].Tokens)%8 > 2
			}), "some answers end between two waits")
			got := answerMix(t, path, several)
			for i := range want {
				for j, choice := range want[i].Choices {
					for k, token := range choice.Logprobs {
						require.InDelta(t, token.Logprob, got[i].Choices[j].Logprobs[k].Logprob, 1e-4)
					}
					choice.Logprobs, got[i].Choices[j].Logprobs = nil, nil
					require.Equal(t, choice, got[i].Choices[j], "request %d", i)
				}
			}
			// The number of steps depends on when requests arrive, so only counts of the same
			// engine can be compared.
			require.Less(t, several.Counters().Waits, several.Counters().CommandBuffers)
			require.Equal(t, waiting.Counters().CommandBuffers, waiting.Counters().Waits)
		})
	}
}

// answerMix answers requests of many lengths, a few at a time. Most are greedy, with stop ids and
// log-probabilities; some are sampled from the best tokens or from all tokens.
func answerMix(t *testing.T, path string, be compute.Backend) []generation.Completion {
	t.Helper()
	eng, err := engine.Open(path, be, engine.Options{Context: 128, Draft: engine.DraftOff})
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close()) }()
	out := make([]generation.Completion, 14)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(3)
	for i := range out {
		req := generation.Request{MaxTokens: 10 + 3*i, N: 1 + i%2, IgnoreEOS: i%3 > 0, MinTokens: i % 5, Logprobs: i%4 == 0, TopLogprobs: i % 4}
		for j := range 5 + 4*i {
			req.Tokens = append(req.Tokens, int32(31*i+17*j)%2000)
		}
		for id := range int32(50) {
			req.StopIDs = append(req.StopIDs, 40*id+int32(i))
		}
		switch i {
		case 7:
			req.Sampling = generation.Sampling{Temperature: 1, TopK: 20, TopP: 0.9, Seed: 5}
		case 9:
			req.Sampling = generation.Sampling{Temperature: 1, PresencePenalty: 0.5, Seed: 5}
		case 12:
			req.Sampling = generation.Sampling{Temperature: 1, Seed: 6}
		case 13:
			req.Sampling = generation.Sampling{Temperature: 0.8, MinP: 0.02, FrequencyPenalty: 2, RepetitionPenalty: 1.3, LogitBias: map[int32]float64{9: 2}}
		}
		group.Go(func() (err error) {
			if out[i], err = eng.Generate(ctx, req); err != nil {
				err = fmt.Errorf("request %d: %w", i, err)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	return out
}

// TestWaitsOfStepsInFlight counts the GPU's work for a generation, greedy or drawn with several
// options: two command buffers and one wait per token. No pipeline and no buffer is made.
func TestWaitsOfStepsInFlight(t *testing.T) {
	t.Parallel()
	const tokens = 33
	for i, name := range modeltest.Micros(t) {
		be := open(t, metal.Options{}, emulator.Options{})
		eng, err := engine.Open(modeltest.Micro(t, name), be, engine.Options{Context: 128, Draft: engine.DraftOff})
		require.NoError(t, err)
		before := be.Counters()
		sampling := []generation.Sampling{{}, {Temperature: 1}, {Temperature: 1, TopP: 0.9, TopK: 100, MinP: 0.01, RepetitionPenalty: 1.2, FrequencyPenalty: 0.1}}[i%3]
		_, err = eng.Generate(t.Context(), generation.Request{Tokens: []int32{5, 300, 17}, MaxTokens: tokens, IgnoreEOS: true, Sampling: sampling})
		require.NoError(t, err)
		after := be.Counters()
		require.Equal(t, 2*tokens, after.CommandBuffers-before.CommandBuffers)
		require.Equal(t, tokens, after.Waits-before.Waits)
		require.Zero(t, after.Pipelines-before.Pipelines)
		require.Zero(t, after.Buffers-before.Buffers)
		require.Zero(t, after.UploadedBytes-before.UploadedBytes)
		require.NoError(t, eng.Close())
	}
}

// TestReadBytes counts the bytes that are copied from a device with memory of its own: for requests
// without further options at most 64 per token.
func TestReadBytes(t *testing.T) {
	t.Parallel()
	readBytes(t, open(t, metal.Options{}, emulator.Options{Discrete: true}))
}

func TestReadBytesOnGPU(t *testing.T) {
	eachGPU(t, func(t *testing.T, start starter) {
		t.Helper()
		be := start(t, metal.Options{})
		if be.Name() == "metal" {
			t.Skip("the GPU shares the CPU's memory")
		}
		readBytes(t, be)
	})
}

func readBytes(t *testing.T, be *metal.Backend) {
	t.Helper()
	const tokens = 40
	eng, err := engine.Open(modeltest.Micro(t, "micro-llama"), be, engine.Options{Context: 128, Draft: engine.DraftOff})
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close()) }()
	for name, c := range map[string]struct {
		request  generation.Request
		maxBytes int // per token
	}{
		"greedy":    {generation.Request{}, 64},
		"default":   {generation.Request{Sampling: generation.Sampling{Temperature: 1}}, 64},
		"penalties": {generation.Request{Sampling: generation.Sampling{Temperature: 1, FrequencyPenalty: 1, RepetitionPenalty: 1.1}}, 64},
		"logprobs":  {generation.Request{Logprobs: true, TopLogprobs: 5, Sampling: generation.Sampling{Temperature: 1}}, 1024},
	} {
		c.request.Tokens, c.request.MaxTokens, c.request.IgnoreEOS, c.request.N = []int32{5, 300, 17}, tokens, true, 3
		before := be.Counters().ReadBytes
		_, err := eng.Generate(t.Context(), c.request)
		require.NoError(t, err)
		read := be.Counters().ReadBytes - before
		t.Logf("%s: %.1f bytes per token", name, float64(read)/(3*tokens))
		require.Positive(t, read, name)
		require.LessOrEqual(t, read, c.maxBytes*3*tokens, name)
	}
}

// watched is a device that counts the dispatches that may begin a new command buffer.
type watched struct {
	metal.Device
	splits int
}

func (w *watched) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	for i := range work {
		if work[i].SplitBefore {
			w.splits++
		}
	}
	return w.Device.Submit(work)
}

// TestLongStepsMayBeSplit checks that the device may split a step with a long prompt after each
// layer. A step with one token or a short prompt may not be split.
func TestLongStepsMayBeSplit(t *testing.T) {
	t.Parallel()
	dev, err := emulator.Open(emulator.Options{})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("the kernels are not tested: %v", err)
	}
	require.NoError(t, err)
	w := &watched{Device: dev}
	be, err := metal.New(w, metal.Options{})
	require.NoError(t, err)
	m := modeltest.Load(t, be, modeltest.Micro(t, "micro-llama"))
	for rows, maxSplits := range map[int]int{1: 0, 63: 0, 64: 100} {
		w.splits = 0
		_, err := m.Forward(modeltest.Batch(make([]int32, rows), 0))
		require.NoError(t, err)
		require.Equal(t, maxSplits > 0, w.splits > 1, "%d rows", rows)
		require.LessOrEqual(t, w.splits, maxSplits)
	}
}

// repeated is a device that counts submissions, and those that are like an earlier one.
type repeated struct {
	metal.Device
	seen             map[string]bool
	passes, repeated int
}

func (r *repeated) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	var key strings.Builder
	for _, w := range work {
		fmt.Fprintln(&key, w.Pipeline, w.Buffers, string(w.Args), w.Groups, w.Threads, w.ThreadgroupMemory, w.Barrier)
	}
	r.passes++
	if r.seen[key.String()] {
		r.repeated++
	}
	r.seen[key.String()] = true
	return r.Device.Submit(work)
}

// TestStepsAreRepeated checks that steps which generate tokens of sequences with different lengths
// are mostly like earlier steps. Some drivers run such steps much faster.
func TestStepsAreRepeated(t *testing.T) {
	t.Parallel()
	dev, err := emulator.Open(emulator.Options{})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("the kernels are not tested: %v", err)
	}
	require.NoError(t, err)
	r := &repeated{Device: dev, seen: map[string]bool{}}
	be, err := metal.New(r, metal.Options{})
	require.NoError(t, err)
	eng, err := engine.Open(modeltest.Micro(t, "micro-llama"), be, engine.Options{Context: 256, Draft: engine.DraftOff})
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close()) }()
	r.passes, r.repeated = 0, 0
	group, ctx := errgroup.WithContext(t.Context())
	for i := range 6 {
		req := generation.Request{MaxTokens: 120, IgnoreEOS: true, Sampling: generation.Sampling{Temperature: 1}}
		for j := range 3 + 5*i {
			req.Tokens = append(req.Tokens, int32(31*i+17*j))
		}
		group.Go(func() error {
			_, err := eng.Generate(ctx, req)
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Greater(t, r.passes, 100)
	require.Greater(t, float64(r.repeated), 0.6*float64(r.passes), "%d of %d submissions were repeated", r.repeated, r.passes)
}
