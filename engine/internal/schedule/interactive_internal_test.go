package schedule

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
)

// batchRequest returns a batch request. prompt and answer are the numbers of tokens of its prompt
// and its answer.
func batchRequest(first int32, prompt, answer int) generation.Request {
	tokens := make([]int32, prompt)
	for i := range tokens {
		tokens[i] = (first + int32(3*i)) % 2000
	}
	return generation.Request{Tokens: tokens, MaxTokens: answer, IgnoreEOS: true}
}

func interactiveRequest(first int32, prompt, answer int) generation.Request {
	req := batchRequest(first, prompt, answer)
	req.Interactive = true
	return req
}

// alone returns the answer to a request on a scheduler without other requests.
func alone(t *testing.T, req generation.Request) []int32 {
	t.Helper()
	m := newManual(t, setup{path: microLlama})
	r := m.begin(req)
	m.finish(r)
	return r.seqs[0].answer()
}

func (r *request) runs() bool { return r.seqs[0].table != nil }

// Interactive requests are admitted in order of arrival, before batch requests that have waited for
// longer.
func TestInteractiveRequestsAreAdmittedFirst(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{MaxSequences: 2}})
	var want []*sequence
	add := func(req generation.Request) *sequence { return m.begin(req).seqs[0] }
	one, two := add(batchRequest(10, 4, 20)), add(batchRequest(20, 4, 20))
	chat, other := add(interactiveRequest(30, 4, 20)), add(interactiveRequest(40, 4, 20))
	want = append(want, chat, other, one, two)
	require.Equal(t, want, m.loop.planner.waiting)
	m.step()
	require.Equal(t, want[:2], m.loop.planner.running)
	require.Equal(t, want[2:], m.loop.planner.waiting)
}

// An interactive request runs in the next step although batch requests have all slots: the youngest
// batch request is preempted, and its answer is the same. An interactive request does not preempt
// another interactive request.
func TestAnInteractiveRequestTakesASlot(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{MaxSequences: 3}})
	var rows []*request
	for i := range int32(4) {
		rows = append(rows, m.begin(batchRequest(100*i, 20, 40)))
	}
	for range 10 {
		m.step()
	}
	require.Equal(t, []bool{true, true, true, false}, running(rows))
	var chats []*request
	for i := range int32(3) {
		chats = append(chats, m.begin(interactiveRequest(1000+100*i, 20, 12)))
		m.step()
		require.True(t, chats[i].answered(), "the prompt is computed in the first step after the request arrives")
		require.Equal(t, []bool{i < 2, i < 1, false, false}, running(rows), "the youngest batch request is preempted first")
	}
	late := m.begin(interactiveRequest(1500, 20, 12))
	m.step()
	require.Equal(t, []bool{true, true, true}, running(chats))
	require.False(t, late.runs())
	require.Equal(t, uint64(3), m.loop.planner.preemptions)
	for i, s := range []*request{rows[0], rows[1], rows[2], rows[3]} {
		require.Same(t, s.seqs[0], m.loop.planner.waiting[1+i], "preempted requests wait in the order of arrival")
	}
	for _, r := range slices.Concat(chats, []*request{late}, rows) {
		m.finish(r)
	}
	require.Equal(t, uint64(3), m.loop.planner.preemptions)
	for i, r := range rows {
		require.Equal(t, alone(t, batchRequest(100*int32(i), 20, 40)), r.seqs[0].answer())
	}
	require.Equal(t, alone(t, interactiveRequest(1000, 20, 12)), chats[0].seqs[0].answer())
}

func running(all []*request) (run []bool) {
	for _, r := range all {
		run = append(run, r.runs())
	}
	return run
}

// An interactive request preempts as few batch requests as it needs for its pages, and none if the
// pages of all would not suffice.
func TestAnInteractiveRequestTakesPages(t *testing.T) {
	t.Parallel()
	const pages = 36
	m := newManual(t, setup{path: microLlama, limits: model.Limits{Context: 16 * pages, Pages: pages}})
	var rows []*request
	for i := range int32(4) { // 8 pages each when they end, and an incomplete page
		rows = append(rows, m.begin(batchRequest(100*i, 64, 64)))
	}
	m.step()
	require.Equal(t, []bool{true, true, true, true}, running(rows))
	first := m.begin(interactiveRequest(1000, 250, 40)) // 19 pages when it ends; each batch request then has 7
	m.step()
	require.True(t, first.runs())
	require.Equal(t, []bool{true, true, false, false}, running(rows))
	second := m.begin(interactiveRequest(1200, 350, 20)) // 24 pages when it ends; the first one then has 17
	m.step()
	require.False(t, second.runs())
	require.Equal(t, []bool{true, true, false, false}, running(rows), "the pages of both batch requests do not suffice for the second chat")
	require.Equal(t, uint64(2), m.loop.planner.preemptions)
	for _, r := range append(rows, first, second) {
		m.finish(r)
	}
	for i, r := range rows {
		require.Equal(t, alone(t, batchRequest(100*int32(i), 64, 64)), r.seqs[0].answer())
	}
}

// When pages run out in a step, batch sequences are preempted before interactive ones, even if the
// interactive ones are younger.
func TestInteractiveSequencesKeepTheirPages(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, limits: model.Limits{PageSize: 4, Context: 64}})
	l := m.loop
	rows := []*request{m.begin(batchRequest(10, 4, 9)), m.begin(batchRequest(20, 4, 9))}
	m.step()
	chat := m.begin(interactiveRequest(30, 4, 9))
	m.step()
	hog := l.planner.pool.NewTable()
	require.True(t, hog.Grow(l.planner.pool.Available()*l.planner.pool.PageSize()))
	m.step() // the chat needs a second page
	require.Equal(t, []*sequence{rows[0].seqs[0], chat.seqs[0]}, l.planner.running)
	require.Equal(t, []*sequence{rows[1].seqs[0]}, l.planner.waiting)
	hog.Release()
	for _, r := range append(rows, chat) {
		m.finish(r)
	}
}

// Batch requests are answered although interactive requests keep arriving and could fill every
// slot. Each batch request is overtaken a bounded number of times.
func TestInteractiveRequestsDoNotStarveABatch(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{MaxSequences: 2}})
	const rows = 3
	var batch []*request
	for i := range int32(rows) {
		batch = append(batch, m.begin(batchRequest(10*i, 4, 5)))
	}
	m.step()
	chats, next := 0, int32(0)
	for batch[rows-1].open > 0 {
		for m.loop.planner.interactiveWaiting() < 3 {
			m.begin(interactiveRequest(100+next%1000, 4, 2))
			next++
			chats++
		}
		m.step()
		require.LessOrEqual(t, chats, rows*(maxSkips+8)+10)
	}
	require.Greater(t, chats, maxSkips)
	require.Positive(t, m.loop.planner.preemptions, "the first batch requests lost their slots")
	for i, r := range batch {
		require.Zero(t, r.open)
		require.Equal(t, alone(t, batchRequest(10*int32(i), 4, 5)), r.seqs[0].answer())
	}
}

// The prompt of an interactive request takes as many steps as on an idle engine, and these steps
// take hardly longer. Some generating batch requests wait, and all continue after the interactive
// request's first token.
func TestAnInteractivePromptIsComputedAsIfAlone(t *testing.T) {
	t.Parallel()
	for _, prompt := range []int{20, 50, 300} {
		idle := newManual(t, setup{path: microLlama, options: Options{Steps: affine()}})
		var want []int
		for r := idle.begin(interactiveRequest(7, prompt, 1)); !r.answered(); {
			want = append(want, idle.rows())
		}
		m := answering(t, 16, Options{Steps: affine()})
		for i := range int32(3) {
			m.begin(batchRequest(100+100*i, 200, 5)) // their prompts wait as well
		}
		m.step()
		tokens := m.Snapshot().GeneratedTokens
		chat := m.begin(interactiveRequest(7, prompt, 1))
		for i, n := range want {
			require.False(t, chat.answered())
			rows := m.rows()
			require.GreaterOrEqual(t, rows, n)
			require.LessOrEqual(t, 10+float64(rows), maxBatchSlowdown*(10+float64(n)), "step %d of a prompt of %d", i+1, prompt)
		}
		require.True(t, chat.answered())
		if prompt == 20 {
			require.Less(t, m.Snapshot().GeneratedTokens-tokens, uint64(16), "some batch requests waited")
		}
		tokens = m.Snapshot().GeneratedTokens
		m.step()
		require.GreaterOrEqual(t, m.Snapshot().GeneratedTokens-tokens, uint64(16), "all batch requests continue")
	}
}

// While a long interactive prompt is computed, each batch request generates a token in at least
// every fourth step.
func TestALongInteractivePromptLeavesSteps(t *testing.T) {
	t.Parallel()
	m := answering(t, 8, Options{Steps: affine(), StepTime: 40e6})
	row := m.begin(batchRequest(100, 30, 5))
	chat := m.begin(interactiveRequest(7, 900, 1))
	before := m.Snapshot()
	for !chat.answered() {
		m.step()
	}
	steps, tokens := m.Snapshot().Steps-before.Steps, m.Snapshot().GeneratedTokens-before.GeneratedTokens
	require.Greater(t, steps, uint64(20))
	require.GreaterOrEqual(t, tokens, 8*(steps/batchTurn))
	require.True(t, row.answered(), "the batch request's prompt got rows")
}

// An interactive prompt does not wait for a batch request that is computing the same pages. It
// computes the pages itself, and the batch request then uses them.
func TestAnInteractivePromptDoesNotWaitForPagesOfOthers(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{PrefillChunk: 8, Steps: affine()}})
	row := m.begin(generation.Request{Tokens: ascending(100), MaxTokens: 2, IgnoreEOS: true})
	m.step()
	require.Equal(t, 8, row.seqs[0].computed, "half a page")
	chat := m.begin(generation.Request{Tokens: ascending(90), MaxTokens: 2, IgnoreEOS: true, Interactive: true})
	m.step()
	require.Equal(t, 8, chat.seqs[0].computed)
	m.finish(chat)
	m.finish(row)
	require.Zero(t, chat.figures.cached)
	require.Positive(t, row.figures.cached, "the batch request uses the interactive request's pages")
}

// Sequences that wait for an interactive prompt lose their drafts and draft again after the prompt.
func TestDraftsWaitForAnInteractivePrompt(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{
		path: microGLM, options: Options{MaxSequences: 8, Steps: affine()},
		speculate: func(be compute.Backend, o *draft.Options) { byMTP(be, o); o.Fixed = 3 },
	})
	req := generation.Request{Tokens: ascending(6), N: 4, MaxTokens: 90, IgnoreEOS: true}
	rows := m.begin(req)
	for range 10 {
		m.step()
	}
	drafts := func() (n int) {
		for _, s := range rows.seqs {
			n += len(s.draft.Drafts)
		}
		return n
	}
	require.Equal(t, 4*3, drafts())
	chat := m.begin(interactiveRequest(7, 8, 1))
	require.Equal(t, 8, m.rows()-m.lastRows(rows), "the step has 8 prompt rows besides the generating sequences' rows")
	require.True(t, chat.answered())
	for range 2 {
		m.step()
	}
	require.Equal(t, 4*3, drafts())
	require.LessOrEqual(t, m.rows(), 4+3, "drafts lengthen the step by at most a quarter while an interactive request may arrive")
	m.finish(rows)
	lone := newManual(t, setup{path: microGLM})
	want := lone.begin(req)
	lone.finish(want)
	for i, s := range rows.seqs {
		require.Equal(t, want.seqs[i].answer(), s.answer())
	}
}

// lastRows returns the number of rows that a request had in the last step.
func (m manual) lastRows(r *request) (n int) {
	for _, s := range r.seqs {
		n += s.rows
	}
	return n
}

// While an interactive request may arrive, the steps in flight together take no longer than the
// prompt of such a request.
func TestStepsInFlightLeaveTimeForTheNextInteractiveRequest(t *testing.T) {
	t.Parallel()
	be, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	m := newManual(t, setup{path: microLlama, backend: several{be}, options: Options{Steps: affine()}})
	row := m.begin(batchRequest(10, 4, 100))
	m.step()
	steps := func() uint64 {
		before := m.Snapshot().Steps
		m.step()
		return m.Snapshot().Steps - before
	}
	require.Equal(t, uint64(9), steps(), "a run takes 0.1 s")
	m.finish(m.begin(interactiveRequest(100, 30, 1)))
	require.Equal(t, uint64(3), steps(), "a step takes 11 ms, and a prompt 40 ms")
	m.finish(row)
}

// Batch sequences get their rows first in one of every few steps with interactive prompts. After a
// step without them, the steps are counted anew.
func TestTheTurnOfBatchSequences(t *testing.T) {
	t.Parallel()
	var p planner
	for range 3 {
		for range batchTurn - 1 {
			require.True(t, p.interactiveFirst(true))
		}
		require.False(t, p.interactiveFirst(false))
	}
	for range batchTurn - 1 {
		require.True(t, p.interactiveFirst(true))
	}
	require.False(t, p.interactiveFirst(true))
	require.True(t, p.interactiveFirst(true))
}
