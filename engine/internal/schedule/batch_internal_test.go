package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
)

// In the next step of a run with masks, the rows of sequences that go on have new draws: one under
// a mask, or the token that must follow. The rows of sequences that have ended have a token that
// nobody reads, and need no mask.
func TestDrawsOfTheNextStepOfARun(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "[ab]{2}-known-[0-9]{9}", "")
	a, known := f.encode("a")[0], f.encode("-known-")
	b := batch{guides: newGuides(f.tok.Size(), false)}
	begin := func(maxTokens int, answer ...int32) *sequence {
		req := &generation.Request{MaxTokens: maxTokens}
		r, err := newRequest(t.Context(), f.tok, 100, time.Now(), []int32{5, 6}, req, f.form)
		require.NoError(t, err)
		s := r.seqs[0]
		for _, id := range answer {
			s.accept(id, true)
		}
		s.follow()
		s.guide.begin(0)
		o := output{seq: s, position: s.length() - 1, row: len(b.outputs)}
		b.rows.Draws = append(b.rows.Draws, b.draw(&o))
		b.seqs, b.outputs = append(b.seqs, s), append(b.outputs, o)
		b.addMasks(s)
		return s
	}
	ends, masked, stale, forced := begin(1), begin(50), begin(50), begin(50, a)
	for i, d := range b.rows.Draws {
		require.NotNil(t, d.Mask, i)
		require.False(t, d.Given, i)
	}
	require.True(t, slices.Equal([]*sequence{ends, masked, stale, forced}, b.guides.seqs))

	for _, s := range []*sequence{ends, masked, stale, forced} {
		s.computed = s.length()
		s.accept(a, true)
		s.follow()
	}
	stale.stale = true
	require.True(t, ends.ended())
	require.Equal(t, 3, b.continuing(), "the first one ends with its token")
	b.advance()
	require.Len(t, b.outputs, 2)
	require.Equal(t, make([]output, 2), b.outputs[2:4], "ended sequences are not kept alive")
	require.Equal(t, make([]*sequence, 2), b.seqs[2:4])
	require.Equal(t, len(known)-1, b.redraw())
	require.Equal(t, compute.Draw{Given: true}, b.rows.Draws[0])
	require.NotNil(t, b.rows.Draws[1].Mask)
	require.Equal(t, compute.Draw{Given: true}, b.rows.Draws[2])
	require.Equal(t, compute.Draw{Given: true, Token: known[0]}, b.rows.Draws[3])
	require.True(t, slices.Equal([]*sequence{masked}, b.guides.seqs))

	for _, s := range []*sequence{masked, forced} {
		s.stale = true
	}
	b.advance()
	require.Empty(t, b.seqs)
}
