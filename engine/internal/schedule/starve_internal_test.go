package schedule

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model"

	"github.com/stretchr/testify/require"
)

// A long prompt is answered although short prompts keep arriving and go first because the cache
// holds their beginning. The number of steps is limited: first the steps of the sequences that are
// admitted before the long prompt, then the steps of the long prompt.
func TestShortPromptsDoNotStarveALongOne(t *testing.T) {
	t.Parallel()
	const answer, short, cached = 5, 20, 16
	for _, c := range []struct{ slots, room, long, shortAnswer int }{
		{1, 1, 40, 3}, {1, 12, 300, 1}, {2, 1, 100, 5}, {3, 4, 300, 4}, {3, 1, 60, 1}, {4, 12, 250, 6},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			m := newManual(t, setup{
				path: microLlama, limits: model.Limits{Rows: c.slots + c.room, Context: 320}, options: Options{MaxSequences: c.slots},
			})
			begin := func(tokens, answer int, first int32) *request {
				return m.begin(generation.Request{Tokens: slices.Repeat([]int32{first}, tokens), MaxTokens: answer, IgnoreEOS: true})
			}
			step := func() {
				for len(m.loop.planner.waiting) < c.slots+2 {
					begin(short, c.shortAnswer, 7)
				}
				m.step()
			}
			for range 20 {
				step()
			}

			long := begin(c.long, answer, 9)
			// A short prompt takes one step for each token of its answer, and the steps for its
			// rows that are not cached. Those rows share the room that the generating sequences
			// leave in a step.
			each := c.shortAnswer + (c.slots*(short-cached)+c.room-1)/c.room + 1
			limit := ((maxSkips+c.slots+2)/c.slots+2)*each + (c.long+c.slots*short)/c.room + 1 + answer
			steps := 0
			for ; long.open > 0; steps++ {
				require.Less(t, steps, limit, "%d of %d tokens are computed", long.seqs[0].computed, c.long)
				step()
			}
			require.NotZero(t, long.seqs[0].skips, "short prompts were admitted before the long one")
			require.Len(t, long.seqs[0].answer(), answer)
		})
	}
}
