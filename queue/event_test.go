package queue_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// cutCalls cuts the calls of a choice into random pieces, and returns these as events.
func cutCalls(t *rapid.T, calls []generation.ToolCall) (events []queue.Event) {
	var before queue.Progress
	var piece generation.Piece
	end := func() {
		if rapid.Bool().Draw(t, "end") {
			events = append(events, queue.Event{Before: before, Piece: piece})
			before.Add(piece)
			piece = generation.Piece{}
		}
	}
	for i, c := range calls {
		d := generation.ToolCallDelta{Index: i, ID: c.ID, Name: c.Name}
		for {
			n := rapid.IntRange(0, len(c.Arguments)).Draw(t, "n")
			d.Arguments, c.Arguments = c.Arguments[:n], c.Arguments[n:]
			piece.ToolCalls = append(piece.ToolCalls, d)
			end()
			if c.Arguments == "" {
				break
			}
			d.ID, d.Name = "", ""
		}
	}
	return append(events, queue.Event{Before: before, Piece: piece})
}

// A client gets each part of a call once, also if an attempt begins again and cuts the answer into
// other pieces, and if events are lost.
func TestCallsOfAnEvent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.SliceOf(rapid.Custom(func(t *rapid.T) generation.ToolCall {
			return generation.ToolCall{ID: rapid.StringN(1, 3, 3).Draw(t, "id"), Name: "f", Arguments: rapid.StringMatching(`[a-c{}":]{0,9}`).Draw(t, "arguments")}
		})).Draw(t, "calls")
		var have queue.Progress
		var got []generation.ToolCall
		add := func(p generation.Piece) {
			have.Add(p)
			for _, d := range p.ToolCalls {
				if d.ID != "" {
					require.Equal(t, len(got), d.Index)
					got = append(got, generation.ToolCall{ID: d.ID, Name: d.Name})
				}
				got[d.Index].Arguments += d.Arguments
			}
		}
		first := cutCalls(t, calls)
		for _, e := range slices.Concat(first[:rapid.IntRange(0, len(first)).Draw(t, "first")], cutCalls(t, calls)) {
			if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
				continue
			}
			text, err := e.Encode()
			require.NoError(t, err)
			e, err = queue.DecodeEvent(text)
			require.NoError(t, err)
			if piece, ok := e.Since(have); ok {
				add(piece)
			}
		}
		add(generation.Piece{ToolCalls: have.CallsAfter(calls)})
		require.Equal(t, calls, append([]generation.ToolCall{}, got...))
	})
}

// An event or a result with a number that JSON does not have is an error.
func TestNumbersThatJSONDoesNotHave(t *testing.T) {
	t.Parallel()
	e := queue.Event{Batch: "b", Piece: generation.Piece{Logprobs: []generation.TokenLogprob{{Logprob: math.NaN()}}}}
	_, err := e.Encode()
	require.ErrorContains(t, err, "encode an event of batch b: ")
	_, err = queue.DecodeEvent([]byte("{"))
	require.ErrorContains(t, err, "read an event: ")
	j := &queue.Job{Batch: "b", Line: 7, Sum: "0badcafe", CustomID: "x"}
	x := math.Inf(1)
	r := queue.Answered(j, new(openai.Request), nil, time.Now(), queue.Stats{QueueWaitMS: x, TTFTMS: x, TotalMS: x, MaskMS: x, PrefillTPS: x, DecodeTPS: x, BatchMean: x})
	require.True(t, r.Failed)
	require.Contains(t, string(r.Text), `"message":"line 7: write the result: `)
	require.Equal(t, queue.Stats{}, r.Stats)
}
