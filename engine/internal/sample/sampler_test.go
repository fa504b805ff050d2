package sample

import (
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
)

// device draws tokens with the CPU backend.
type device struct {
	be *cpu.Backend
	tb require.TestingT
}

func newDevice(t *testing.T) device {
	t.Helper()
	be, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	return device{be, t}
}

// rows draws a token from the same logits with each of the draws. It returns the rows of
// compute.Step.Draw.
func (d device) rows(logits []float32, draws []compute.Draw) [][]float32 {
	in, err := d.be.Buffer(len(draws), len(logits))
	require.NoError(d.tb, err)
	out, err := d.be.Buffer(len(draws), compute.DrawCols)
	require.NoError(d.tb, err)
	for _, row := range d.be.Floats(in) {
		copy(row, logits)
	}
	s := d.be.Begin(&compute.Batch{})
	s.Draw(out, in, draws)
	require.NoError(d.tb, s.Run())
	return d.be.Floats(out)
}

// draw draws the token at a position.
func (d device) draw(logits []float32, draw compute.Draw) (Drawn, error) {
	return ReadDrawn(d.rows(logits, []compute.Draw{draw})[0])
}

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

// Tokens are those to whose intervals the random numbers belong, in the distribution of the
// reference.
func TestDrawsMatchReference(t *testing.T) {
	t.Parallel()
	dev := newDevice(t)
	rapid.Check(t, func(t *rapid.T) {
		vocab := rapid.IntRange(2, 30).Draw(t, "vocab")
		p := drawParams(t, vocab)
		require.NoError(t, p.Validate(vocab))
		p.Seed = rapid.Uint64().Draw(t, "seed")
		id := rapid.Int32Range(0, int32(vocab-1))
		prompt := rapid.SliceOfN(id, 0, 5).Draw(t, "prompt")
		answer := rapid.SliceOfN(id, 0, 8).Draw(t, "answer")
		accepted := rapid.IntRange(0, len(answer)).Draw(t, "accepted") // the others are drafts
		barred := rapid.SliceOfN(id, 0, 1).Draw(t, "barred")
		logits := make([]float32, vocab)
		for i := range logits {
			logits[i] = float32(rapid.IntRange(-80, 80).Draw(t, "logit")) / 8
		}
		want, near := reference(logits, p, prompt, answer, barred)
		if near {
			return
		}
		slices.SortFunc(want, func(a, b ranked) int { return int(a.id - b.id) })
		s := New(p, 3, prompt)
		for _, a := range answer[:accepted] {
			s.Accept(a)
		}
		var draws []compute.Draw
		var memory []compute.Edit
		for position := range 20 {
			draws = append(draws, s.Next(position, answer[accepted:], barred, &memory))
		}
		for position, row := range dev.rows(logits, draws) {
			got, err := ReadDrawn(row)
			require.NoError(t, err)
			require.Equal(t, logits[got.ID], got.Logit)
			u, from := float64(compute.Random(p.Seed, position, 3))*0x1p-64, 0.0
			for _, w := range want {
				if w.id == got.ID {
					require.InDelta(t, from+w.prob/2, u, w.prob/2+1e-6, "token %d at %g", w.id, u)
				}
				from += w.prob
			}
			require.True(t, slices.ContainsFunc(want, func(w ranked) bool { return w.id == got.ID }), "token %d", got.ID)
		}
	})
}

// Drafts count like accepted tokens, and do not change later draws.
func TestDraftsCountAsAccepted(t *testing.T) {
	t.Parallel()
	p := generation.Sampling{Temperature: 1, RepetitionPenalty: 1.7, FrequencyPenalty: 0.3, PresencePenalty: 0.2, LogitBias: map[int32]float64{3: 1}}
	drafted, accepted := New(p, 0, []int32{4, 1}), New(p, 0, []int32{4, 1})
	for _, id := range []int32{1, 6, 6, 3} {
		accepted.Accept(id)
	}
	var memory []compute.Edit
	want := accepted.Next(9, nil, []int32{0, 6}, &memory)
	for range 2 {
		require.ElementsMatch(t, want.Edits, drafted.Next(9, []int32{1, 6, 6, 3}, []int32{0, 6}, &memory).Edits)
	}
	require.Equal(t, New(p, 0, []int32{4, 1}).Next(9, nil, nil, &memory), drafted.Next(9, nil, nil, &memory))
}

func TestGreedyTakesTheLowestOfEquals(t *testing.T) {
	t.Parallel()
	got, err := newDevice(t).draw([]float32{1, 3, 2, 3}, New(generation.Sampling{}, 0, nil).Next(0, nil, nil, nil))
	require.NoError(t, err)
	require.Equal(t, Drawn{1, 3}, got)
}

func TestLogitsThatAreNotFiniteAreRefused(t *testing.T) {
	t.Parallel()
	dev := newDevice(t)
	impossible := float32(math.Inf(-1))
	for _, p := range []generation.Sampling{{}, {Temperature: 1}, {Temperature: 1, TopK: 1}, {LogitBias: map[int32]float64{2: 5}}} {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			_, err := dev.draw([]float32{0, 1, bad, 2}, New(p, 0, nil).Next(0, nil, nil, nil))
			require.ErrorIs(t, err, generation.ErrNotFinite)
		}
		_, err := dev.draw([]float32{impossible, impossible, impossible}, New(p, 0, nil).Next(0, nil, nil, nil))
		require.ErrorIs(t, err, generation.ErrNotFinite)
		got, err := dev.draw([]float32{impossible, 1, impossible}, New(p, 0, nil).Next(0, nil, nil, nil))
		require.NoError(t, err)
		require.Equal(t, Drawn{1, 1}, got, "the only token that is possible")
	}
}

// If the edits leave no token, or make a logit too high, the request is at fault.
func TestNoTokenLeft(t *testing.T) {
	t.Parallel()
	dev := newDevice(t)
	var memory []compute.Edit
	for _, temperature := range []float64{0, 1} {
		s := New(generation.Sampling{Temperature: temperature}, 0, nil)
		_, err := dev.draw([]float32{0, 1}, s.Next(0, nil, []int32{0, 1}, &memory))
		require.ErrorIs(t, err, generation.ErrBadRequest)
		got, err := dev.draw([]float32{0, 1}, s.Next(0, nil, []int32{1}, &memory))
		require.NoError(t, err)
		require.Equal(t, int32(0), got.ID)
	}
	_, err := dev.draw([]float32{0, 1}, New(generation.Sampling{LogitBias: map[int32]float64{1: 1e35}}, 0, nil).Next(0, nil, nil, &memory))
	require.ErrorIs(t, err, generation.ErrBadRequest)
}

// The samplers of several choices do not share what they accept.
func TestChoicesAreIndependent(t *testing.T) {
	t.Parallel()
	p := generation.Sampling{Temperature: 1, RepetitionPenalty: 1.7, FrequencyPenalty: 0.3, LogitBias: map[int32]float64{3: 1}, Seed: 5}
	prompt := []int32{4, 1, 4, 2}
	first := New(p, 0, prompt)
	for choice := range 8 {
		shared, own := first.ForChoice(choice), New(p, choice, prompt)
		for position := range 20 {
			require.Equal(t, own.Next(position, nil, nil, nil), shared.Next(position, nil, nil, nil))
			own.Accept(int32(choice+position) % 8)
			shared.Accept(int32(choice+position) % 8)
		}
	}
}

// Top-p keeps as few tokens as needed to reach its share. Of tokens with equal probabilities, it
// keeps the lowest ids.
func TestTopPEndsWhereItsShareIsReached(t *testing.T) {
	t.Parallel()
	dev := newDevice(t)
	for topP, want := range map[float64]int{0.25: 1, 0.3: 2, 0.5: 2, 0.51: 3, 1: 4} {
		s := New(generation.Sampling{Temperature: 1, TopP: topP}, 0, nil)
		drawn := map[int32]bool{}
		for position := range 100 {
			got, err := dev.draw([]float32{2, 2, 2, 2}, s.Next(position, nil, nil, nil))
			require.NoError(t, err)
			require.Less(t, got.ID, int32(want))
			drawn[got.ID] = true
		}
		require.Len(t, drawn, want, "top_p %g", topP)
	}
}

// A top-k of at least the whole vocabulary keeps all tokens.
func TestTopKOfTheWholeVocabularyKeepsAll(t *testing.T) {
	t.Parallel()
	dev := newDevice(t)
	logits := []float32{1, 2.5, -3, 2, 0.5}
	for _, topK := range []int{len(logits), len(logits) + 1, math.MaxInt32} {
		for position := range 50 {
			want, err := dev.draw(logits, New(generation.Sampling{Temperature: 2}, 0, nil).Next(position, nil, nil, nil))
			require.NoError(t, err)
			got, err := dev.draw(logits, New(generation.Sampling{Temperature: 2, TopK: topK}, 0, nil).Next(position, nil, nil, nil))
			require.NoError(t, err)
			require.Equal(t, want, got, "top_k %d", topK)
		}
	}
}

// Without drafts and excluded tokens, a draw allocates nothing, whatever the options.
func TestNextAllocatesNothing(t *testing.T) {
	s := New(generation.Sampling{Temperature: 1, RepetitionPenalty: 1.1, LogitBias: map[int32]float64{1: 1}}, 0, []int32{1, 2, 3})
	for id := range int32(7) {
		s.Accept(id)
	}
	memory := make([]compute.Edit, 0, 100)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.Accept(3)
		_ = s.Next(9, nil, nil, &memory)
	}))
}
