package engine

import (
	"testing"

	"github.com/ingot-run/ingot/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
)

// driven is an engine whose loop is run by hand, one step after another.
type driven struct {
	t *testing.T
	*Engine
}

func drive(t *testing.T, opts Options) driven {
	t.Helper()
	be, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	e, err := open("model/testdata/micro-llama.gguf", be, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.closeFiles()) })
	return driven{t, e}
}

func (d driven) begin(req generation.Request) *call {
	c, err := d.newCall(d.t.Context(), &req)
	require.NoError(d.t, err)
	d.loop.waiting = append(d.loop.waiting, c.seqs...)
	return c
}

// step runs the loop once; without work, it only tells the callers of calls that have ended.
func (d driven) step() {
	l := d.loop
	l.sweep()
	l.admit()
	l.publish()
	if len(l.running) > 0 {
		l.step()
	}
}

func (d driven) finish(c *call) {
	for i := 0; c.open > 0; i++ {
		require.Less(d.t, i, 100, "the call ends")
		d.step()
	}
	require.NoError(d.t, c.err)
}

// putBack takes the pages of the only running sequence, as where older ones need them, and answers another request before the
// sequence goes on.
func (d driven) putBack(meanwhile generation.Request) {
	l := d.loop
	require.Len(d.t, l.running, 1)
	s := l.running[0]
	s.putBack()
	l.running = l.running[:0]
	d.finish(d.begin(meanwhile))
	l.waiting = append(l.waiting, s)
}

// A prompt whose scoring was interrupted, since its pages went to an older sequence, is scored on from where it was, also
// where another sequence has computed the rest of its pages by then.
func TestAPromptThatWasPutBackIsScoredInFull(t *testing.T) {
	t.Parallel()
	for name, promptOnly := range map[string]bool{"with an answer": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, Options{PageSize: 4, PrefillChunk: 8, Context: 64, Draft: DraftOff})
			scored := generation.Request{Tokens: ascending(33), MaxTokens: 2, IgnoreEOS: true, PromptLogprobs: true, PromptOnly: promptOnly}
			want := d.begin(scored)
			d.finish(want)

			got := d.begin(scored)
			d.step()
			require.Len(t, got.promptScores.ids, 8)
			d.putBack(generation.Request{Tokens: ascending(33), MaxTokens: 1, IgnoreEOS: true})
			d.finish(got)
			require.Equal(t, want.promptScores, got.promptScores)
		})
	}
}

// What a prompt that was put back finds in the cache may be what it computed itself, and is nothing that was spared.
func TestPagesOfItsOwnAreNotCountedAsCached(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{PageSize: 4, PrefillChunk: 8, Context: 64, Draft: DraftOff})
	c := d.begin(generation.Request{Tokens: ascending(33), MaxTokens: 2, IgnoreEOS: true})
	d.step()
	d.step()
	d.putBack(generation.Request{Tokens: []int32{7}, MaxTokens: 1, IgnoreEOS: true})
	d.finish(c)
	require.Zero(t, c.stats().CachedTokens)
}

// A prompt that was put back before any of it was computed is spared what others compute meanwhile, and that is told.
func TestPagesOfOthersAreCountedAfterAPutBack(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{PageSize: 4, PrefillChunk: 8, Context: 64, Draft: DraftOff})
	c := d.begin(generation.Request{Tokens: ascending(33), MaxTokens: 2, IgnoreEOS: true})
	d.loop.admit()
	d.putBack(generation.Request{Tokens: ascending(33), MaxTokens: 1, IgnoreEOS: true})
	d.finish(c)
	require.Equal(t, 32, c.stats().CachedTokens)
}

// ascending is a prompt of n tokens.
func ascending(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(100 + i)
	}
	return ids
}
