package schedule

import (
	"testing"

	"github.com/ingot-run/ingot/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/model"
)

// preempt takes the pages of the only running sequence, as if older ones needed them, and answers another request before the
// sequence goes on.
func (m manual) preempt(meanwhile generation.Request) {
	l := m.loop
	require.Len(m.t, l.running, 1)
	s := l.running[0]
	s.preempt()
	l.running = l.running[:0]
	m.finish(m.begin(meanwhile))
	l.waiting = append(l.waiting, s)
}

// newPreempted returns a scheduler whose prompts take several steps.
func newPreempted(t *testing.T) manual {
	t.Helper()
	return newManual(t, setup{path: microLlama, limits: model.Limits{PageSize: 4, Context: 64}, options: Options{PrefillChunk: 8}})
}

// A prompt that is preempted while it is scored continues where it was, even if another sequence has computed the rest of its
// pages by then.
func TestAPreemptedPromptIsScoredInFull(t *testing.T) {
	t.Parallel()
	for name, promptOnly := range map[string]bool{"with an answer": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newPreempted(t)
			scored := generation.Request{Tokens: ascending(33), MaxTokens: 2, IgnoreEOS: true, PromptLogprobs: true, PromptOnly: promptOnly}
			want := m.begin(scored)
			m.finish(want)

			got := m.begin(scored)
			m.step()
			require.Len(t, got.promptScores.ids, 8)
			m.preempt(generation.Request{Tokens: ascending(33), MaxTokens: 1, IgnoreEOS: true})
			m.finish(got)
			require.Equal(t, want.promptScores, got.promptScores)
		})
	}
}

// What a preempted prompt finds in the cache may be what it computed itself, and is not counted as cached.
func TestPagesOfItsOwnAreNotCountedAsCached(t *testing.T) {
	t.Parallel()
	m := newPreempted(t)
	c := m.begin(generation.Request{Tokens: ascending(33), MaxTokens: 2, IgnoreEOS: true})
	m.step()
	m.step()
	m.preempt(generation.Request{Tokens: []int32{7}, MaxTokens: 1, IgnoreEOS: true})
	m.finish(c)
	require.Zero(t, c.stats().CachedTokens)
}

// A prompt that was preempted before any of it was computed uses what others compute meanwhile, and that is counted.
func TestPagesOfOthersAreCountedAfterAPreemption(t *testing.T) {
	t.Parallel()
	m := newPreempted(t)
	c := m.begin(generation.Request{Tokens: ascending(33), MaxTokens: 2, IgnoreEOS: true})
	m.loop.admit()
	m.preempt(generation.Request{Tokens: ascending(33), MaxTokens: 1, IgnoreEOS: true})
	m.finish(c)
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
