package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// ranked is a token in the reference distribution.
type ranked struct {
	id          int32
	logit, prob float64
}

// reference computes the distribution by its definition: edit every logit, sort, apply the
// temperature, and cut off tokens by min-p, top-k and top-p. near reports whether a limit is so
// close to a token that rounding decides whether the token is cut off.
func reference(logits []float32, p generation.Sampling, prompt, answer, barred []int32) (all []ranked, near bool) {
	for i := range logits {
		id := int32(i)
		if !slices.Contains(barred, id) {
			all = append(all, ranked{id: id, logit: referenceEdit(float64(logits[i]), id, p, prompt, answer)})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].logit > all[j].logit })
	if p.Temperature == 0 {
		return soften(all[:1], 1), false
	}
	soften(all, p.Temperature)
	for i, r := range all {
		if share := r.prob / all[0].prob; p.MinP > 0 && share < p.MinP {
			near = share > p.MinP-1e-9
			all = all[:i]
			break
		}
	}
	if p.TopK > 0 && p.TopK < len(all) {
		n := p.TopK
		for n < len(all) && all[n].logit == all[p.TopK-1].logit {
			n++
		}
		all = all[:n]
	}
	soften(all, p.Temperature)
	for i, sum := 0, 0.0; i < len(all) && p.TopP > 0 && p.TopP < 1; i++ {
		sum += all[i].prob
		near = near || math.Abs(sum-p.TopP) < 1e-9
		if sum >= p.TopP {
			all = all[:i+1]
		}
	}
	return soften(all, p.Temperature), near
}

func referenceEdit(x float64, id int32, p generation.Sampling, prompt, answer []int32) float64 {
	times := 0.0
	for _, a := range answer {
		if a == id {
			times++
		}
	}
	x += p.LogitBias[id]
	if p.RepetitionPenalty != 0 && slices.Contains(slices.Concat(prompt, answer), id) {
		if x > 0 {
			x /= p.RepetitionPenalty
		} else {
			x *= p.RepetitionPenalty
		}
	}
	return x - p.FrequencyPenalty*times - p.PresencePenalty*min(times, 1)
}

func soften(all []ranked, temperature float64) []ranked {
	sum := 0.0
	for _, r := range all {
		sum += math.Pow(math.E, (r.logit-all[0].logit)/temperature)
	}
	for i, r := range all {
		all[i].prob = math.Pow(math.E, (r.logit-all[0].logit)/temperature) / sum
	}
	return all
}

// drawParams draws settings whose effects on the test's logits are exact in float32.
func drawParams(t *rapid.T, vocab int) generation.Sampling {
	p := drawTruncation(t, vocab)
	p.RepetitionPenalty = rapid.SampledFrom([]float64{0, 0.5, 1, 2}).Draw(t, "repetition")
	p.PresencePenalty = float64(rapid.IntRange(-4, 4).Draw(t, "presence")) / 2
	p.FrequencyPenalty = float64(rapid.IntRange(-4, 4).Draw(t, "frequency")) / 2
	p.LogitBias = map[int32]float64{}
	for range rapid.IntRange(0, 3).Draw(t, "biases") {
		p.LogitBias[rapid.Int32Range(0, int32(vocab-1)).Draw(t, "id")] = float64(rapid.IntRange(-5, 5).Draw(t, "bias"))
	}
	return p
}

// drawTruncation draws the settings that do not change logits, but only which tokens are
// candidates.
func drawTruncation(t *rapid.T, vocab int) generation.Sampling {
	maybe := func(name string, minimum float64) float64 {
		if !rapid.Bool().Draw(t, "with "+name) {
			return 0
		}
		return rapid.Float64Range(minimum, 1).Draw(t, name)
	}
	return generation.Sampling{
		Temperature: maybe("temperature", 0.2),
		TopK:        rapid.IntRange(0, vocab+2).Draw(t, "top_k"),
		TopP:        maybe("top_p", 0.01),
		MinP:        maybe("min_p", 0.01),
	}
}

func TestDistributionMatchesReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		vocab := rapid.IntRange(2, 30).Draw(t, "vocab")
		p := drawParams(t, vocab)
		require.NoError(t, p.Validate(vocab))
		id := rapid.Int32Range(0, int32(vocab-1))
		prompt := rapid.SliceOfN(id, 0, 5).Draw(t, "prompt")
		answer := rapid.SliceOfN(id, 0, 8).Draw(t, "answer")
		barred := rapid.SliceOfN(id, 0, 1).Draw(t, "barred")
		logits := make([]float32, vocab)
		for i := range logits {
			logits[i] = float32(rapid.IntRange(-80, 80).Draw(t, "logit")) / 8
		}
		before := slices.Clone(logits)

		s := New(p, 0, prompt)
		s.Exclude(barred)
		for _, a := range answer {
			s.Accept(a)
		}
		got, err := s.distribution(logits, new(Scratch))
		require.NoError(t, err)
		require.Equal(t, before, logits, "the caller's logits do not change")

		want, near := reference(logits, p, prompt, answer, barred)
		if near {
			return
		}
		slices.SortFunc(want, func(a, b ranked) int { return int(a.id - b.id) })
		var ids []int32
		for _, w := range want {
			ids = append(ids, w.id)
			require.InEpsilon(t, w.prob, probability(got, w.id), 1e-9, "token %d", w.id)
		}
		require.Equal(t, ids, got.IDs)
	})
}

// Draws over many positions have the frequencies of the distribution. The same check must reject
// another distribution.
func TestDrawsFollowTheDistribution(t *testing.T) {
	t.Parallel()
	const draws = 20000
	logits := make([]float32, 40)
	for i := range logits {
		logits[i] = float32(i%13)/4 - float32(i%3)/2
	}
	for name, p := range map[string]generation.Sampling{
		"temperature":    {Temperature: 1, Seed: 1},
		"cold":           {Temperature: 0.6, Seed: 2},
		"top_k":          {Temperature: 1.3, TopK: 5, Seed: 3},
		"top_p":          {Temperature: 1, TopP: 0.6, Seed: 4},
		"min_p":          {Temperature: 1, MinP: 0.2, Seed: 5},
		"all of them":    {Temperature: 0.9, TopK: 20, TopP: 0.8, MinP: 0.05, Seed: 6},
		"bias, penalty":  {Temperature: 1, RepetitionPenalty: 1.5, LogitBias: map[int32]float64{3: 2}, Seed: 7},
		"seed with bits": {Temperature: 1, Seed: 0xdeadbeefcafef00d},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prompt := []int32{1, 12, 25}
			want, _ := reference(logits, p, prompt, nil, nil)
			bin := map[int32]int{}
			expected := make([]float64, len(want))
			for i, w := range want {
				bin[w.id], expected[i] = i, w.prob*draws
				require.Greater(t, expected[i], 5.0, "the expected number of draws is too low for the test")
			}
			seen := make([]int, len(want))
			s, w := New(p, 2, prompt), new(Scratch)
			for position := range draws {
				id, err := s.Sample(logits, position, w)
				require.NoError(t, err)
				require.Contains(t, bin, id)
				seen[bin[id]]++
			}
			require.Less(t, chiSquared(seen, expected), chiSquaredLimit(len(want)-1))
			if len(want) > 1 {
				slices.Reverse(expected)
				require.Greater(t, chiSquared(seen, expected), chiSquaredLimit(len(want)-1))
			}
		})
	}
}

func TestDrawCoversTheEnds(t *testing.T) {
	t.Parallel()
	d := distribution{IDs: []int32{4, 7, 9}, Weights: []float64{0.5, 1, 0.5}, Total: 2}
	for u, want := range map[float64]int32{0: 4, 0.2499: 4, 0.25: 7, 0.7499: 7, 0.75: 9, 1 - 0x1p-53: 9} {
		require.Equal(t, want, d.Draw(u), "u = %g", u)
	}
}

func TestGreedyTakesTheLowestOfEquals(t *testing.T) {
	t.Parallel()
	id, err := New(generation.Sampling{}, 0, nil).Sample([]float32{1, 3, 2, 3}, 0, new(Scratch))
	require.NoError(t, err)
	require.Equal(t, int32(1), id)
}

func TestExtremeTemperatures(t *testing.T) {
	t.Parallel()
	logits := []float32{-3, 90, 89, 90}
	cold, err := New(generation.Sampling{Temperature: 5e-324}, 0, nil).distribution(logits, new(Scratch))
	require.NoError(t, err)
	require.Equal(t, []int32{1, 3}, cold.IDs)
	hot, err := New(generation.Sampling{Temperature: math.MaxFloat64}, 0, nil).distribution(logits, new(Scratch))
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1, 1, 1}, hot.Weights)
}

func TestLogitsThatAreNotFiniteAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		for _, p := range []generation.Sampling{{}, {Temperature: 1}, {Temperature: 1, TopK: 1}} {
			_, err := New(p, 0, nil).Sample([]float32{0, 1, bad, 2}, 0, new(Scratch))
			require.ErrorIs(t, err, generation.ErrNotFinite)
			require.ErrorContains(t, err, "token 2")
		}
		_, err := LogSumExp([]float32{0, bad})
		require.ErrorIs(t, err, generation.ErrNotFinite)
	}
	_, err := New(generation.Sampling{}, 0, nil).Sample(nil, 0, new(Scratch))
	require.ErrorIs(t, err, generation.ErrNotFinite)
	s := New(generation.Sampling{}, 0, nil)
	s.Exclude([]int32{0, 1})
	_, err = s.Sample([]float32{1, 2}, 0, new(Scratch))
	require.ErrorIs(t, err, generation.ErrBadRequest)
	require.NotErrorIs(t, err, generation.ErrNotFinite)
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	logits := randomLogits(5000)
	for name, p := range map[string]generation.Sampling{
		"greedy": {},
		"all":    {Temperature: 1, TopK: 200, TopP: 0.9, MinP: 0.01, RepetitionPenalty: 1.1, FrequencyPenalty: 0.1, LogitBias: map[int32]float64{1: 1}},
	} {
		s, w, top := New(p, 0, []int32{1, 2, 3}), new(Scratch), make([]int32, 0, 20)
		position := 0
		draw := func() {
			_, err := s.Sample(logits, position, w)
			require.NoError(t, err)
			s.Accept(int32(position % 7))
			top = Top(top[:0], logits, 20)
			position++
		}
		for range 10 {
			draw()
		}
		require.Zero(t, testing.AllocsPerRun(100, draw), name)
	}
}

func randomLogits(n int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(r.NormFloat64() * 3)
	}
	return logits
}

func BenchmarkSample(b *testing.B) {
	logits := randomLogits(151936)
	for name, p := range map[string]generation.Sampling{
		"greedy":      {},
		"temperature": {Temperature: 0.8},
		"top_k":       {Temperature: 0.8, TopK: 40},
		"top_p":       {Temperature: 0.8, TopP: 0.95},
		"min_p":       {Temperature: 0.8, MinP: 0.05},
	} {
		b.Run(name, func(b *testing.B) {
			s, w := New(p, 0, nil), new(Scratch)
			for i := 0; b.Loop(); i++ {
				if _, err := s.Sample(logits, i, w); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("logprobs", func(b *testing.B) {
		var top []int32
		for b.Loop() {
			if _, err := LogSumExp(logits); err != nil {
				b.Fatal(err)
			}
			top = Top(top[:0], logits, 20)
		}
	})
}

// probability returns the probability of token id; 0 if it cannot be drawn.
func probability(d distribution, id int32) float64 {
	i, ok := slices.BinarySearch(d.IDs, id)
	if !ok {
		return 0
	}
	return d.Weights[i] / d.Total
}

// The samplers of several choices share data. Each still draws the same tokens as a separate
// sampler, whatever tokens the others draw.
func TestChoicesAreIndependent(t *testing.T) {
	t.Parallel()
	p := generation.Sampling{Temperature: 1, RepetitionPenalty: 1.7, FrequencyPenalty: 0.3, PresencePenalty: 0.2, LogitBias: map[int32]float64{3: 1}, Seed: 5}
	prompt := []int32{4, 1, 4, 2}
	logits := []float32{1, -2, 3, 0.5, -1, 2, 1.5, 0}
	first, w := New(p, 0, prompt), new(Scratch)
	for choice := range 8 {
		shared, own := first.ForChoice(choice), New(p, choice, prompt)
		for position := range 20 {
			want, err := own.distribution(logits, w)
			require.NoError(t, err)
			want.IDs, want.Weights = slices.Clone(want.IDs), slices.Clone(want.Weights)
			got, err := shared.distribution(logits, w)
			require.NoError(t, err)
			require.Equal(t, want, got)
			id := got.Draw(shared.uniform(position))
			require.Equal(t, id, want.Draw(own.uniform(position)))
			own.Accept(id)
			shared.Accept(id)
		}
	}
}

// Top-p keeps as few tokens as needed to reach its share. Of tokens with equal probabilities, it
// keeps the lowest ids.
func TestTopPEndsWhereItsShareIsReached(t *testing.T) {
	t.Parallel()
	for topP, want := range map[float64][]int32{0.25: {0}, 0.3: {0, 1}, 0.5: {0, 1}, 0.51: {0, 1, 2}, 1: {0, 1, 2, 3}} {
		d, err := New(generation.Sampling{Temperature: 1, TopP: topP}, 0, nil).distribution([]float32{2, 2, 2, 2}, new(Scratch))
		require.NoError(t, err)
		require.Equal(t, want, d.IDs, "top_p %g", topP)
	}
}
