package draft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// drafting returns trials whose present stretch has drafts.
func drafting() trials {
	t := newTrials(1, true)
	t.begin(true, 1000)
	return t
}

// plain and drafted are steps that take the given time, and are estimated to take a second. Drafts
// save the given time.
func (t *trials) plain(seconds float64, steps int) (depends bool) {
	return t.observe(Step{Seconds: seconds, Steps: steps}, false, 1, 1, 0)
}

func (t *trials) drafted(seconds, saved float64) (depends bool) {
	return t.observe(Step{Seconds: seconds, Steps: 1}, true, 1, 1, saved)
}

// Drafts are tried, and used if they are faster. The slower way is tried again, more and more
// seldom. If several steps can be in flight, they are measured first.
func TestStretches(t *testing.T) {
	t.Parallel()
	type stretch struct {
		drafts bool
		steps  int
	}
	for name, c := range map[string]struct {
		inFlight int
		passes   bool
		saved    float64 // seconds that drafts save in a step, which takes 1.5 s with them
		want     []stretch
	}{
		"drafts save time": {1, false, 1, []stretch{{true, 16}, {true, 64}, {false, 16}, {true, 128}, {false, 16}, {true, 256}, {false, 16}}},
		"and in flight":    {3, false, 1, []stretch{{false, 64}, {false, 32}, {true, 16}, {true, 64}, {false, 16}, {true, 128}}},
		"drafts cost time": {1, false, 0, []stretch{{true, 5}, {false, 128}, {true, 5}, {false, 256}, {true, 5}, {false, 512}, {true, 5}, {false, 512}, {true, 5}}},
		"cost, in flight":  {3, false, 0, []stretch{{false, 64}, {false, 32}, {true, 5}, {false, 384}, {true, 5}, {false, 768}, {true, 5}, {false, 1536}, {true, 5}, {false, 1536}}},
		"with passes":      {1, true, 0, []stretch{{true, 65}, {false, 128}, {true, 65}, {false, 256}}},
		"passes save time": {1, true, 1, []stretch{{true, 96}, {true, 64}, {false, 16}}},
		"hardly faster":    {1, false, 0.64, []stretch{{true, 16}, {false, 128}, {true, 16}, {false, 256}}},
	} {
		tr := newTrials(c.inFlight, c.passes)
		for i, want := range c.want {
			require.Equal(t, want.drafts, tr.allows(), "%s, %d", name, i)
			for n := range want.steps {
				require.Equal(t, want.drafts, tr.allows(), "%s, stretch %d, step %d", name, i, n)
				if !want.drafts {
					require.Equal(t, want.steps-n, tr.left, "%s, %d", name, i)
					tr.plain(1, 1)
				} else {
					tr.drafted(1.5, c.saved)
				}
			}
		}
	}
}

// A stretch with drafts ends when it has lost more than it may, and has gained little before.
func TestTextsThatChange(t *testing.T) {
	t.Parallel()
	tr := newTrials(1, false)
	for range textSteps + firstSpan/2 {
		require.True(t, tr.allows())
		tr.drafted(1.5, 2)
	}
	require.InDelta(t, -maxCredit, tr.lost, 1e-9)
	for range 6 {
		require.True(t, tr.allows())
		tr.drafted(2, 0)
	}
	tr.drafted(2, 0)
	require.False(t, tr.allows())
	require.Equal(t, []int{shortRest, 2 * shortRest, textSteps}, []int{tr.left, tr.rest, tr.span})
}

// A stretch that may have drafts begins to count with its first drafts: steps without drafts say
// nothing about them. It ends before if the search for drafts has lost too much.
func TestStretchesBeginWithDrafts(t *testing.T) {
	t.Parallel()
	tr := newTrials(1, false)
	for range 1000 {
		tr.plain(1, 1)
	}
	require.Equal(t, []int{textSteps, shortRest}, []int{tr.left, tr.rest})
	for range textSteps {
		require.True(t, tr.allows())
		require.Equal(t, textSteps, tr.span)
		tr.drafted(1, 1)
	}
	require.Equal(t, firstSpan, tr.span)

	tr = newTrials(1, false)
	for range 200 {
		require.True(t, tr.allows())
		tr.plain(1.01, 1)
	}
	tr.plain(1.01, 1)
	require.False(t, tr.allows())
}

// The duration of a step depends on drafts if it has some, or if it follows such a step so soon
// that fewer steps are in flight.
func TestWhichStepsDependOnDrafts(t *testing.T) {
	t.Parallel()
	tr := newTrials(3, false)
	require.Equal(t, []int{4, 0, 0}, []int{tr.ramp, newTrials(1, false).ramp, newTrials(0, false).ramp})
	require.False(t, tr.plain(1, 1))
	require.True(t, tr.drafted(1, 0))
	require.True(t, tr.plain(1, 3))
	require.True(t, tr.plain(1, 0), "it counts as one step")
	require.False(t, tr.plain(1, 1))
}

// Steps that another program delays count little, and earlier stretches count half.
func TestMeasuredTimes(t *testing.T) {
	t.Parallel()
	tr := newTrials(1, false)
	tr.begin(false, 99)
	tr.plain(0.5, 10)
	tr.plain(100, 10)
	require.Equal(t, way{20, 20, 15}, tr.without)
	require.InDelta(t, 0.75, tr.without.price(), 1e-9)
	tr.begin(true, 9)
	require.Equal(t, way{20, 20, 15}, tr.without)
	tr.drafted(1.5, 0)
	require.Equal(t, way{1, 1, 1.5}, tr.with)
	require.InDelta(t, 0.75, tr.lost, 1e-9)
	require.InDelta(t, 2, tr.relative(), 1e-9)
	tr.begin(false, 9)
	require.Equal(t, way{10, 10, 7.5}, tr.without)
	require.InDelta(t, 1, (&way{}).price(), 0)
}
