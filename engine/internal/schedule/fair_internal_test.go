package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// choices returns an interactive request with n choices.
func choices(n int, first int32, answer int) generation.Request {
	req := interactiveRequest(first, 20, answer)
	req.N, req.Sampling = n, generation.Sampling{Temperature: 1, Seed: uint64(first)}
	return req
}

func (r *request) ended() (n int) {
	for _, s := range r.seqs {
		if s.ended() {
			n++
		}
	}
	return n
}

// A chat runs in the next step although the choices of another client's request have all slots. The
// requests share the slots; the choices that lose theirs have the same answers.
func TestRequestsShareSlots(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{MaxSequences: 4}})
	many := m.begin(choices(12, 100, 10))
	for range 3 {
		m.step()
	}
	require.Equal(t, 4, many.running)
	var chats []*request
	for i, left := range []int{3, 2, 1, 1} {
		chats = append(chats, m.begin(choices(1, 500+100*int32(i), 30)))
		m.step()
		require.Equal(t, i < 3, chats[i].answered(), "the prompt is computed in the first step after the request arrives, unless each request has one slot")
		require.Equal(t, left, many.running)
	}
	second := m.begin(choices(12, 900, 10))
	for many.ended() == 0 {
		m.step()
	}
	m.step()
	require.Equal(t, 1, chats[3].running, "the request that has waited for longest gets the slot that is free")
	for _, r := range append(chats, many, second) {
		for steps := 0; r.open > 0; steps++ {
			require.Less(t, steps, 500)
			m.step()
			require.LessOrEqual(t, max(many.running, second.running)-min(many.running, second.running), 4)
		}
		require.NoError(t, r.err)
	}
	for _, c := range []struct {
		got *request
		req generation.Request
	}{{many, choices(12, 100, 10)}, {second, choices(12, 900, 10)}, {chats[2], choices(1, 700, 30)}} {
		alone := newManual(t, setup{path: microLlama, options: Options{MaxSequences: 16}})
		want := alone.begin(c.req)
		alone.finish(want)
		for i, s := range c.got.seqs {
			require.Equal(t, want.seqs[i].answer(), s.answer(), "choice %d", i)
		}
		require.Zero(t, c.got.running)
	}
}

// With a single slot, requests take turns: a chat waits for one choice of another request, not for
// all, and a request with many choices advances although chats keep arriving.
func TestRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{MaxSequences: 1}})
	many := m.begin(choices(6, 100, 4))
	m.step()
	chat := m.begin(choices(1, 500, 4))
	for chat.open > 0 {
		m.step()
		require.LessOrEqual(t, many.ended(), 1)
	}
	arrived, next := 0, int32(0)
	for many.open > 0 {
		for len(m.loop.planner.waiting) < 4+len(many.seqs)-many.ended() {
			m.begin(choices(1, 600+next%1000, 2))
			next++
			arrived++
		}
		m.step()
		require.Less(t, arrived, 60, "%d choices have ended", many.ended())
	}
	require.Greater(t, arrived, 6)
}

// Batch rows are answered in order of arrival, whatever their number of choices.
func TestRowsDoNotShareSlots(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{MaxSequences: 2}})
	row := func(n int, first int32) *request {
		req := choices(n, first, 4)
		req.Interactive = false
		return m.begin(req)
	}
	first, second := row(6, 100), row(1, 500)
	for second.open > 0 {
		m.step()
	}
	require.GreaterOrEqual(t, first.ended(), 5)
	require.Zero(t, m.loop.planner.preemptions)
}

// The time to queue chats with many choices is proportional to their number.
func TestManyChoicesAreQueuedFast(t *testing.T) { // not parallel, because it measures time
	const requests, n, limit = 600, 128, 200 * time.Millisecond // inserting them one by one takes seconds
	all := make([]*request, requests)
	for i := range all {
		all[i] = &request{interactive: true, seqs: make([]*sequence, n)}
		for k := range all[i].seqs {
			all[i].seqs[k] = &sequence{request: all[i], choice: k}
		}
	}
	rows := &request{seqs: []*sequence{{}}}
	rows.seqs[0].request = rows
	fastest := time.Hour
	for begun := time.Now(); fastest > limit; {
		require.Less(t, time.Since(begun), 20*time.Second, "queueing takes %v", fastest)
		var p planner
		start := time.Now()
		p.enqueue(rows.seqs)
		for _, r := range all {
			p.enqueue(r.seqs)
		}
		fastest = min(fastest, time.Since(start))
		require.Equal(t, requests*n, p.interactiveWaiting())
		require.Same(t, rows.seqs[0], p.waiting[requests*n])
		require.Equal(t, all[1].seqs, slices.Clone(p.waiting[n:2*n]))
	}
}
