package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// Sequences that end are expected to be followed by others while others have followed them, until
// more than one in eight of those that run were not.
func TestSuccessions(t *testing.T) {
	t.Parallel()
	var s successions
	s.admit(0)
	s.admit(1)
	require.False(t, s.follow(2), "none has ended")
	s.ended++
	require.False(t, s.follow(16), "none has followed")
	s.admit(15)
	require.True(t, s.follow(16))
	s.ended += 2
	require.True(t, s.follow(16))
	s.ended++
	require.False(t, s.follow(16))
	s.admit(13)
	require.True(t, s.follow(16))
	s.ended = 16
	s.admit(0)
	require.Equal(t, successions{}, s, "the engine was idle")
}

// The scheduler counts the sequences that end and those that follow them.
func TestSequencesThatFollowOthers(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{MaxSequences: 4}})
	ask := func(tokens int) generation.Request {
		return generation.Request{Tokens: []int32{1, 2, 3}, MaxTokens: tokens, IgnoreEOS: true}
	}
	p := &m.loop.planner
	long, short := m.begin(ask(40)), m.begin(ask(2))
	m.finish(short)
	m.step()
	require.Equal(t, successions{ended: 1}, p.successions)
	next := m.begin(ask(2))
	m.step()
	require.Equal(t, successions{some: true}, p.successions)
	m.finish(next)
	m.finish(long)
	m.begin(ask(2))
	m.step()
	require.Equal(t, successions{}, p.successions)
}
