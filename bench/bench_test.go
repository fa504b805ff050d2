package bench

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
)

const (
	microLlama = "../engine/model/testdata/micro-llama.gguf"
	microGLM   = "../engine/model/testdata/micro-glm.gguf"
)

// TestMain gives engines the costs of their steps.
func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	os.Exit(m.Run())
}

// at returns the time ms milliseconds after an arbitrary moment.
func at(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

func times(ms ...int) (list []time.Time) {
	for _, n := range ms {
		list = append(list, at(n))
	}
	return list
}

// twoStreams returns a run with two streams. The second begins later and ends later. Because of
// drafts, it gets two tokens at 50 ms.
func twoStreams() run {
	r := round{start: at(0), end: at(90), answers: []answer{
		{start: at(0), times: times(10, 30, 40, 50, 60), stats: generation.Stats{PromptTokens: 8, CachedTokens: 3}},
		{start: at(5), times: times(20, 35, 50, 50, 70, 80), stats: generation.Stats{PromptTokens: 8, DraftTokens: 4, AcceptedTokens: 1}},
	}}
	return run{rounds: []round{r}, elapsed: 90 * time.Millisecond}
}

func TestSpeeds(t *testing.T) {
	t.Parallel()
	r := twoStreams()
	for mode, want := range map[Mode]struct {
		tokens int
		took   time.Duration
	}{
		Prefill: {8 - 3 + 8, 20 * time.Millisecond},
		Decode:  {4 + 3, 40 * time.Millisecond}, // tokens from 20 to 60 ms
		Full:    {5 + 6, 90 * time.Millisecond},
	} {
		tokens, took := r.speed(mode)
		require.Equal(t, want.tokens, tokens, string(mode))
		require.Equal(t, want.took, took, string(mode))
	}

	s := sum([]run{r})
	require.Equal(t, []time.Duration{10 * time.Millisecond, 15 * time.Millisecond}, s.first)
	require.Equal(t, 9, s.after)
	require.Equal(t, 8, s.decoding)
	require.InDelta(t, 10, quantile(s.each, 0.5), 1e-9)
	require.InDelta(t, 20, quantile(s.each, 0.95), 1e-9)
	require.InDelta(t, 7.5, quantile(s.each, 0), 1e-9, "a step of 15 ms with two tokens")
	require.Equal(t, 4, s.drafted)
}

func TestMedian(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 3, median([]float64{9, 1, 3}), 0)
	require.InDelta(t, 2, median([]float64{2, 1}), 0)
	require.Zero(t, quantile(nil, 0.5))
}

func traffic(t *testing.T, path string, stepTokens int) (Traffic, *gguf.File) {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	tr, err := NewTraffic(f, gguf.TypeF32, stepTokens)
	require.NoError(t, err)
	return tr, f
}

func TestTrafficOfADenseModel(t *testing.T) {
	t.Parallel()
	tr, f := traffic(t, microLlama, 512)
	all := 0.0
	for _, w := range f.Tensors() {
		all += float64(len(w.Data))
	}
	_, own := f.Tensor("output.weight")
	embedding, _ := f.Tensor("token_embd.weight")
	if own {
		all -= float64(len(embedding.Data))
	}
	row := float64(len(embedding.Data) / embedding.Shape[1])
	position := 3.0 * (32 + 32) * 4
	require.InDelta(t, all+row+100*position, tr.Decode(1, 1, 100).Sum(), 1)
	require.InDelta(t, all+8*row+8*100*position, tr.Decode(8, 1, 100).Sum(), 1)
	// 1,000 rows in two steps, after 24 cached positions. Each step reads the cache up to its last
	// row: row 500 and row 1000.
	require.InDelta(t, 2*all+1000*row+(24+24+1000*1.5)*position, tr.prompts(1, 24, 1000), 1)
	require.Zero(t, tr.prompts(4, 10, 0))
}

func TestTrafficOfExperts(t *testing.T) {
	t.Parallel()
	tr, f := traffic(t, microGLM, 512)
	require.NotZero(t, tr.count)
	require.InDelta(t, float64(tr.used), tr.Experts(1), 1e-9)
	require.InDelta(t, float64(tr.count), tr.Experts(1e6), 1e-6)
	for rows := 1.0; rows < 64; rows *= 2 {
		require.Less(t, tr.Experts(2*rows), 2*tr.Experts(rows), "rows share experts")
	}
	// A step that uses every expert reads all weights of the file, except the MTP layer and the
	// embedding's rows of other tokens.
	read := 0.0
	for _, w := range f.Tensors() {
		if !strings.HasPrefix(w.Name, "blk.3.") && w.Name != "token_embd.weight" {
			read += float64(len(w.Data))
		}
	}
	_, own := f.Tensor("output.weight")
	require.True(t, own)
	require.InDelta(t, read, tr.weights(1e6).Sum()-1e6*float64(tr.embedding), 1)
}

func openBench(t *testing.T, path string, opts engine.Options) *Bench {
	t.Helper()
	be, err := cpu.New(1)
	require.NoError(t, err)
	e, err := engine.Open(path, be, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	tr, _ := traffic(t, path, e.Info().StepTokens)
	b, err := New(t.Context(), e, tr, 1e9, 2)
	require.NoError(t, err)
	return b
}

// TestMeasure is not parallel: next to other tests, streams might not start at the same time.
func TestMeasure(t *testing.T) {
	b := openBench(t, microGLM, engine.Options{MaxSequences: 4, Context: 1024, Draft: engine.DraftOff})
	for name, c := range map[string]Case{
		"prefill":           {Mode: Prefill, Batch: 2, Prompt: 40},
		"prefill at length": {Mode: Prefill, Batch: 2, Prompt: 20, Context: 100},
		"decode":            {Mode: Decode, Batch: 4, Prompt: 10, Gen: 900},
		"decode at length":  {Mode: Decode, Batch: 1, Prompt: 10, Gen: 12, Context: 128},
		"full":              {Mode: Full, Batch: 3, Rows: 10, Prompt: 50, Gen: 4, Shared: 34},
	} {
		r, err := b.Measure(t.Context(), c)
		for try := 0; try < 5 && err != nil && strings.Contains(err.Error(), "never generated at the same time"); try++ {
			r, err = b.Measure(t.Context(), c) // on a busy machine, one stream can begin after another has ended
		}
		require.NoError(t, err, name)
		require.Equal(t, c.Prompt, r.Prompt, name)
		require.Equal(t, c.Gen, r.Gen, name)
		require.Equal(t, max(c.Rows, c.Batch), r.Rows, name)
		require.Positive(t, r.TokensPerS, name)
		require.Positive(t, r.RowsPerS, name)
		require.Positive(t, r.BytesPerToken, name)
		require.InDelta(t, r.BytesPerToken*r.TokensPerS/1e9, r.BandwidthShare, 1e-9, name)
		require.GreaterOrEqual(t, r.P95ms, r.P50ms, name)
		require.Positive(t, r.FirstTokenP50ms, name)
		require.Zero(t, r.Acceptance, name)
		if c.Mode != Prefill {
			require.InDelta(t, 1, r.TokensPerStep, 1e-9, name)
		}
		want := float64((max(c.Context, 1) - 1) / 16 * 16)
		if c.Shared > 0 {
			require.Greater(t, r.CachedTokens, 20.0, "nine of ten requests find two pages in the cache")
			continue
		}
		require.Equal(t, want, 16*math.Floor(r.CachedTokens/16), name)
	}
	_, err := b.Measure(t.Context(), Case{Mode: Decode, Batch: 1, Prompt: 1100, Gen: 2})
	require.ErrorIs(t, err, generation.ErrBadRequest)
}

// TestSpread checks that the logarithms of lengths are normally distributed around the medians,
// that all runs have the same lengths but other tokens, and that no request is longer than
// MaxTokens.
func TestSpread(t *testing.T) {
	t.Parallel()
	c := Case{Mode: Full, Batch: 8, Rows: 4000, Prompt: 400, Gen: 100, Shared: 100, Spread: 0.7}
	one, two := c.requests(1, 5000), c.requests(2, 5000)
	var prompts, gens []float64
	for i := range one {
		require.Len(t, two[i].Tokens, len(one[i].Tokens))
		require.Equal(t, one[i].MaxTokens, two[i].MaxTokens)
		require.LessOrEqual(t, len(one[i].Tokens)+one[i].MaxTokens, c.MaxTokens())
		require.Equal(t, one[0].Tokens[:100], one[i].Tokens[:100])
		require.NotEqual(t, one[i].Tokens, two[i].Tokens)
		prompts, gens = append(prompts, float64(len(one[i].Tokens)-100)/300), append(gens, float64(one[i].MaxTokens)/100)
	}
	for _, factors := range [][]float64{prompts, gens} {
		slices.Sort(factors)
		for share, sigmas := range map[float64]float64{0.025: -1.96, 0.159: -1, 0.5: 0, 0.841: 1, 0.975: 1.96} {
			require.InDelta(t, 0.7*sigmas, math.Log(factors[int(share*4000)]), 0.1, "%g", share)
		}
	}
	c.Sampling = generation.Sampling{Temperature: 1, TopP: 0.9}
	drawn := c.requests(1, 5000)
	require.Equal(t, generation.Sampling{Temperature: 1, TopP: 0.9, Seed: 7}, drawn[7].Sampling)
}

// TestMeasureDrawnAndSpread measures requests as users send them: drawn, and of different lengths.
func TestMeasureDrawnAndSpread(t *testing.T) {
	b := openBench(t, microGLM, engine.Options{MaxSequences: 4, Context: 1024, Draft: engine.DraftOff})
	c := Case{Mode: Full, Batch: 4, Rows: 40, Prompt: 20, Gen: 8, Spread: 1, Sampling: generation.Sampling{Temperature: 1, TopP: 0.9}}
	r, err := b.Measure(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []float64{1, 0.9, 1}, []float64{r.Temperature, r.TopP, r.Spread})
	require.Greater(t, r.Prompt, 20, "the mean is above the median")
	require.Equal(t, 40, r.Rows)
	require.Positive(t, r.TokensPerS)
}

func TestSharingOff(t *testing.T) {
	t.Parallel()
	b := openBench(t, microLlama, engine.Options{MaxSequences: 2, Context: 64, NoSharing: true})
	r, err := b.Measure(t.Context(), Case{Mode: Full, Batch: 2, Rows: 4, Prompt: 40, Gen: 2, Shared: 36})
	require.NoError(t, err)
	require.Zero(t, r.CachedTokens)
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	text := `{"question": "What is the capital of Kenya?", "answer": "Nairobi."}` + "\n" + `{"question": "Compute 8 + 81."}`
	asked, err := ReadQuestions(strings.NewReader(text), 20)
	require.NoError(t, err)
	require.Len(t, asked, 2)
	b := openBench(t, "../models/tiny-glm.q8_0.gguf", engine.Options{MaxSequences: 1, Draft: engine.DraftMTP, DraftTokens: 2})
	r, err := b.Measure(t.Context(), Case{Mode: Decode, Batch: 1, Requests: asked})
	require.NoError(t, err)
	require.Equal(t, 2, r.Rows)
	require.Positive(t, r.Acceptance)
	require.Greater(t, r.TokensPerStep, 1.0)

	for text, want := range map[string]string{
		"":                         "no question",
		"{\"question\": \"a\"}\nx": "line 2",
		"{\"prompt\": \"a\"}":      `line 1: "question" is missing`,
	} {
		_, err := ReadQuestions(strings.NewReader(text), 1)
		require.ErrorContains(t, err, want)
	}
}

func TestCasesThatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	for _, c := range []Case{
		{Mode: Decode, Batch: 0, Prompt: 1, Gen: 2},
		{Mode: Decode, Batch: 1, Prompt: 0, Gen: 2},
		{Mode: Decode, Batch: 1, Prompt: 1, Gen: 1},
		{Mode: Full, Batch: 1, Prompt: 1, Gen: 0},
		{Mode: Full, Batch: 1, Prompt: 1, Gen: 1, Context: -1},
		{Mode: Full, Batch: 1, Prompt: 1, Gen: 1, Shared: 2},
		{Mode: Full, Batch: 1, Prompt: 1, Gen: 1, Spread: -1},
		{Mode: Full, Batch: 1, Prompt: 1, Gen: 1, Spread: math.NaN()},
		{Mode: Decode, Batch: 1, Prompt: 1, Gen: 2, Spread: 1},
	} {
		require.Error(t, c.check(), "%+v", c)
	}
	_, err := ParseMode("both")
	require.ErrorContains(t, err, "prefill, decode or full")
}

func TestWriteTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, WriteTable(&b, []Record{{Mode: Decode, Batch: 8, TokensPerS: 123.44, Acceptance: 0.5}}))
	require.Contains(t, b.String(), "123.4")
	require.Contains(t, b.String(), "50 %")
}

func TestBandwidth(t *testing.T) {
	t.Parallel()
	got, err := Bandwidth(2)
	require.NoError(t, err)
	require.Greater(t, got, 1e8)
	again, err := Bandwidth(2)
	require.NoError(t, err)
	require.Equal(t, got, again, "it is measured once")
}
