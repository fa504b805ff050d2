package model_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// TestPlain compares the plain forward pass with the reference outputs. Other tests rely on the
// plain forward pass.
func TestPlain(t *testing.T) {
	const tolerance = 1e-3 // the reference is in float32
	for _, name := range modeltest.Micros(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := modeltest.Micro(t, name)
			p := newPlain(t, path)
			for i, c := range modeltest.Cases(t, path)[:2] {
				tokens := c.Tokens()
				hidden, logits := p.forward(tokens)
				for at, top := range c.TopLogits {
					for _, pair := range top {
						require.InDelta(t, pair[1], logits[at][int(pair[0])], tolerance, "case %d, position %d, token %g", i, at, pair[0])
					}
				}
				for at, want := range c.MTPDrafts {
					if at%6 != 0 { // a draft computes the whole sequence again, so only every sixth position is compared
						continue
					}
					known := len(c.PromptTokens) + at + 1
					p.compareDrafts(t, tokens[:known], hidden[:known-1], want, tolerance)
				}
			}
		})
	}
}

// compareDrafts compares a chain of drafts after known tokens with the reference. Each draft
// continues with the best token of the previous draft.
func (p *plain) compareDrafts(t *testing.T, tokens []int32, states [][]float64, want [][][2]float64, tolerance float64) {
	t.Helper()
	slots, states := slices.Clone(tokens[1:]), slices.Clone(states)
	for k, top := range want {
		own, logits := p.draft(slots, states)
		last := logits[len(logits)-1]
		for _, pair := range top {
			require.InDelta(t, pair[1], last[int(pair[0])], tolerance, "after %d tokens, draft %d, token %g", len(tokens), k, pair[0])
		}
		slots, states = append(slots, int32(top[0][0])), append(states, own[len(own)-1])
	}
}

// distance returns the error of a row of logits: the root mean square of the differences over the
// standard deviation of the expected logits.
func distance(got []float32, want []float64) float64 {
	n := float64(len(want))
	mean, square, off := 0.0, 0.0, 0.0
	for i, w := range want {
		mean += w / n
		square += w * w / n
		off += (float64(got[i]) - w) * (float64(got[i]) - w) / n
	}
	if math.IsNaN(off) {
		return math.Inf(1)
	}
	return math.Sqrt(off / (square - mean*mean))
}
