package engine

import (
	"fmt"
	"testing"

	"github.com/ingot-run/ingot/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
)

// A long prompt is computed and answered however many short ones keep coming, also where these are preferred because the
// cache holds their beginning: within the steps that the sequences it lets go first take, and those of its own.
func TestShortPromptsDoNotStarveALongOne(t *testing.T) {
	t.Parallel()
	const answer, short, cached = 5, 20, 16
	for _, c := range []struct{ slots, room, long, shortAnswer int }{
		{1, 1, 40, 3}, {1, 12, 300, 1}, {2, 1, 100, 5}, {3, 4, 300, 4}, {3, 1, 60, 1}, {4, 12, 250, 6},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			be, err := cpu.New(1)
			require.NoError(t, err)
			defer func() { require.NoError(t, be.Close()) }()
			e, err := open("model/testdata/micro-llama.gguf", be, Options{
				MaxSequences: c.slots, StepTokens: c.slots + c.room, Context: 320, Draft: DraftOff,
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, e.closeFiles()) }()
			l := e.loop
			begin := func(tokens, answer int, first int32) *call {
				req := generation.Request{Tokens: make([]int32, tokens), MaxTokens: answer, IgnoreEOS: true}
				for i := range req.Tokens {
					req.Tokens[i] = first
				}
				call, err := e.newCall(t.Context(), &req)
				require.NoError(t, err)
				l.waiting = append(l.waiting, call.seqs...)
				return call
			}
			step := func() {
				for len(l.waiting) < c.slots+2 {
					begin(short, c.shortAnswer, 7)
				}
				l.sweep()
				l.admit()
				l.publish()
				l.step()
			}
			for range 20 {
				step()
			}

			long := begin(c.long, answer, 9)
			// A short prompt takes the steps of its answer and those of its rows that are not cached, which share what other
			// slots' answers leave of a step.
			each := c.shortAnswer + (c.slots*(short-cached)+c.room-1)/c.room + 1
			most := ((patience+c.slots+2)/c.slots+2)*each + (c.long+c.slots*short)/c.room + 1 + answer
			steps := 0
			for ; long.open > 0; steps++ {
				require.Less(t, steps, most, "%d of %d tokens are computed", long.seqs[0].computed, c.long)
				step()
			}
			require.NotZero(t, long.seqs[0].passed, "short ones were preferred")
			require.Len(t, long.seqs[0].answer(), answer)
		})
	}
}
