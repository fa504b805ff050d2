package schedule

import (
	"errors"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// failingDrafter is an MTP layer that fails from a call on.
type failingDrafter struct {
	model.Drafter
	left int // calls before the first that fails
}

var errDrafter = errors.New("the drafter is lost")

func (d *failingDrafter) Draft(b *compute.Batch, source model.States, states []int32) error {
	if d.left--; d.left < 0 {
		return errDrafter
	}
	return d.Drafter.Draft(b, source, states)
}

// A drafter that fails, after a prompt or after another step, fails the requests of the step. A
// later step goes on.
func TestDraftersThatFail(t *testing.T) {
	t.Parallel()
	for calls := range 4 {
		failing := &failingDrafter{left: math.MaxInt}
		m := newManual(t, setup{path: microGLM, limits: model.Limits{Rows: 8}, speculate: func(_ compute.Backend, o *draft.Options) {
			failing.Drafter = o.Model.(model.Drafter)
			o.MTP, o.Fixed = failing, 2
		}})
		failing.left = calls
		r := m.begin(generation.Request{Tokens: ascending(20), MaxTokens: 30, IgnoreEOS: true})
		for i := 0; r.err == nil; i++ {
			require.Less(t, i, 50, "%d calls", calls)
			m.step()
		}
		require.ErrorIs(t, r.err, errDrafter)
		if calls == 0 {
			require.Zero(t, m.Snapshot().Steps, "nothing of a step counts whose prompt the drafter has not processed")
		}
		failing.left = math.MaxInt
		m.finish(m.begin(generation.Request{Tokens: ascending(20), MaxTokens: 3, IgnoreEOS: true}))
	}
}

// traced is a panic with the stack of another thread.
type traced struct{}

func (traced) Stack() []byte { return []byte("of the thread") }

func TestStacksOfPanics(t *testing.T) {
	t.Parallel()
	require.Equal(t, "of the thread", string(stackOf(traced{})))
	require.Contains(t, string(stackOf("oops")), "TestStacksOfPanics")
}

// If failing the requests of a panic panics too, the scheduler has failed, and says why.
func TestAPanicAfterAPanic(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama})
	l := m.loop
	l.planner.running = []*sequence{{rows: 1}} // without a request
	l.guides.seqs = []*sequence{{guide: &guide{}, request: &request{}}}
	require.False(t, l.recover(errors.New("the first panic")))
	require.Empty(t, l.guides.seqs, "no mask of the step is waited for later")
	require.ErrorContains(t, l.err, "nil pointer")
	require.ErrorIs(t, l.err, generation.ErrEngineFailed)
	select {
	case <-l.failed:
	default:
		require.Fail(t, "callers must learn that the loop has ended")
	}
}

// A loop whose every turn panics ends, and its callers learn why.
func TestALoopThatCannotRecover(t *testing.T) {
	t.Parallel()
	l := newManual(t, setup{path: microLlama}).loop
	l.planner.running = []*sequence{{rows: 1}} // without a request
	l.run()
	require.ErrorIs(t, l.err, generation.ErrEngineFailed)
	<-l.failed
	<-l.done
}

// A panic of the writer's goroutine is that of the one who waits for it.
func TestAWriterThatPanics(t *testing.T) {
	t.Parallel()
	w := newWriter(true)
	w.write = func() { panic("oops") }
	w.start()
	require.PanicsWithError(t, "internal error: panic in a step: oops", w.wait)
	w.write = func() {}
	w.start()
	w.wait()
}

// A run that delivered nothing does not start the writer, which may still write the text of the run
// before.
func TestARunWithoutTokensWritesNothing(t *testing.T) {
	t.Parallel()
	for steps, starts := range []bool{false, true} {
		l := &loop{writer: newWriter(true), present: run{steps: steps}}
		l.endRun()
		require.Equal(t, starts, l.writer.busy)
		l.writer.wait()
	}
}

// The rows of forced tokens share a step with others: as many are planned as fit into the step's
// time, and one in any case.
func TestForcedRowsWithinTheTimeOfAStep(t *testing.T) {
	t.Parallel()
	steps := cost.NewSteps(cost.NewCurve([]int{1, 101}, []float64{1, 101}), 0, 0, 0) // a second for each row
	for _, c := range []struct {
		limit       float64
		room, left  int // further rows of the step, rows of the sequence
		rows, batch int
	}{
		{math.Inf(1), 50, 20, 20, 23}, {math.Inf(1), 10, 20, 11, 14}, {23, 50, 20, 20, 23}, {22.5, 50, 20, 19, 22}, {22, 50, 20, 19, 22},
		{13, 50, 20, 10, 13}, {5, 50, 20, 2, 5}, {4, 50, 20, 1, 4}, {0.5, 50, 20, 1, 4}, {100, 5, 20, 6, 9}, {100, 50, 1, 1, 4},
	} {
		s := &sequence{request: &request{prompt: ascending(4)}, tokens: ascending(4 + c.left), computed: 4}
		p := planner{costs: steps, limits: model.Limits{Rows: 4 + c.room}, size: generatingRows(4)}
		outputs := 100
		p.planForced(s, c.limit, &outputs)
		require.Equal(t, []int{c.rows, c.batch}, []int{s.rows, p.size.Rows}, "%+v", c)
	}
}

// If nothing yields its pages, one of several choices of an interactive request does, the youngest,
// and otherwise the youngest of all.
func TestTheYoungestSequence(t *testing.T) {
	t.Parallel()
	batch, waited := &request{running: 1}, &request{running: 1, interactive: true}
	several := &request{running: 2, interactive: true}
	for name, c := range map[string]struct {
		running []*sequence
		want    int
	}{
		"one that yields":          {[]*sequence{{request: batch}, {request: batch}, {request: waited}}, 1},
		"choices":                  {[]*sequence{{request: waited}, {request: several}, {request: several}, {request: waited}}, 2},
		"batch ones that waited":   {[]*sequence{{request: batch, skips: maxSkips}, {request: batch, skips: maxSkips}}, 1},
		"single interactive ones":  {[]*sequence{{request: waited}, {request: waited}, {request: waited}}, 2},
		"choices of a batch alone": {[]*sequence{{request: &request{running: 2}, skips: maxSkips}, {request: waited}}, 1},
	} {
		require.Equal(t, c.want, (&planner{running: c.running}).youngest(), name)
	}
}

// An attempt with a form is continued where the form's text went on; tokens that the form does not
// allow are not used. What the earlier attempt counted is not counted again.
func TestAnAttemptWithAFormIsContinued(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "[ab]{2}-known-[0-9]{2}", "")
	a, known := f.encode("a")[0], f.encode("-known-")
	for name, c := range map[string]struct {
		ids  []int32
		want []int32 // the answer then; nil if the attempt cannot be used
	}{
		"nothing":         {[]int32{}, []int32{}},
		"a token":         {[]int32{a}, []int32{a}},
		"up to the text":  {[]int32{a, a}, append([]int32{a, a}, known...)},
		"within the text": {[]int32{a, a, known[0]}, append([]int32{a, a}, known...)},
		"another text":    {[]int32{f.encode("k")[0]}, nil},
	} {
		req := &generation.Request{MaxTokens: 50}
		r, err := newRequest(t.Context(), f.tok, 100, time.Now(), []int32{5, 6}, req, f.form)
		require.NoError(t, err)
		used := r.resume(&generation.Progress{Choices: [][]int32{c.ids}})
		s := r.seqs[0]
		require.Equal(t, c.want != nil, used, name)
		if !used {
			continue
		}
		require.Equal(t, c.want, s.answer(), name)
		require.Equal(t, len(s.answer()), s.guide.length, name)
		require.Zero(t, s.guide.masked+s.guide.forcedTokens, name)
		require.Equal(t, len(c.ids), r.resumed, name)
	}
}

// An answer that the form gives in full has its text before a step, also in a stream.
func TestAnAnswerWithoutAStep(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama})
	text := ""
	req := generation.Request{Tokens: ascending(3), MaxTokens: 50, Stream: func(p generation.Piece) error {
		text += p.Text
		return nil
	}}
	form := newFormed(t, "known", "").form
	go m.Run()
	t.Cleanup(m.Close)
	got, err := m.Generate(t.Context(), time.Now(), req.Tokens, &req, form)
	require.NoError(t, err)
	require.Equal(t, "known", got.Choices[0].Text)
	require.Equal(t, "known", text)
	require.Equal(t, generation.FinishStop, got.Choices[0].FinishReason)
}

// Control tokens that a request shows are written with their names.
func TestShownTokens(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "a", "")
	stop, a := f.tok.StopIDs()[0], f.encode("a")[0]
	for _, shown := range []bool{true, false} {
		req := &generation.Request{MaxTokens: 50, IgnoreEOS: true}
		if shown {
			req.Shown = []int32{stop}
		}
		r, err := newRequest(t.Context(), f.tok, 100, time.Now(), []int32{5, 6}, req, nil)
		require.NoError(t, err)
		s := r.seqs[0]
		for _, id := range []int32{a, stop, a} {
			s.accept(id, false)
		}
		s.write()
		want := "aa"
		if shown {
			want = "a" + f.tok.Token(stop) + "a"
		}
		require.Equal(t, want, string(s.text.text))
	}
}

// In the reasoning before a form, the tokens that would end the answer cannot be drawn.
func TestDrawsInReasoning(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "[0-9]{3}", "<think>")
	b := batch{guides: newGuides(f.tok.Size(), false)}
	req := &generation.Request{MaxTokens: 50}
	r, err := newRequest(t.Context(), f.tok, 100, time.Now(), []int32{5, 6}, req, f.form)
	require.NoError(t, err)
	s := r.seqs[0]
	s.follow()
	s.guide.begin(0)
	d := b.draw(&output{seq: s, position: s.length() - 1})
	require.Nil(t, d.Mask)
	require.False(t, d.Given)
	require.Equal(t, s.length(), d.Position, "a draw has the position of its token")
	want := s.guide.excluded(nil, &s.guide.place)
	require.NotEmpty(t, want)
	excluded := map[int32]bool{}
	for _, e := range d.Edits {
		excluded[e.Token] = e.Excluded
	}
	for _, id := range want {
		require.True(t, excluded[id], id)
	}
}

// A step holds no sequence of earlier ones, which could not be freed otherwise.
func TestStepsForgetSequences(t *testing.T) {
	t.Parallel()
	s := &sequence{}
	b := batch{guides: newGuides(8, false), seqs: []*sequence{s, s}, outputs: []output{{seq: s}, {seq: s}}}
	b.guides.seqs, b.guides.used = []*sequence{s}, 1
	b.rows.Draws = []compute.Draw{{Mask: []uint32{1}}, {TopK: 5}}
	b.fill(nil, 0)
	require.Equal(t, make([]*sequence, 2), b.seqs[:2])
	require.Equal(t, make([]output, 2), b.outputs[:2])
	require.Equal(t, make([]compute.Draw, 2), b.rows.Draws[:2])
	require.Empty(t, b.guides.seqs)
	require.Zero(t, b.guides.used)

	m := newManual(t, setup{path: microLlama})
	m.begin(generation.Request{Tokens: ascending(9), MaxTokens: 3, IgnoreEOS: true})
	m.step()
	p := &m.loop.planner
	require.NotZero(t, cap(p.prompts))
	for _, prompt := range p.prompts[:cap(p.prompts)] {
		require.Zero(t, prompt)
	}
}

// In groups of layers that slide, the rows of a prompt in one step need pages beyond those of a
// window, but no more than the prompt has, and no more than the rows of all prompts in a step.
func TestPagesOfPromptsInAStep(t *testing.T) {
	t.Parallel()
	prompting := func(left int) *sequence {
		return &sequence{request: &request{prompt: ascending(left)}, tokens: ascending(left)}
	}
	decoding := &sequence{request: &request{prompt: ascending(4)}, tokens: ascending(5), computed: 4}
	for _, c := range []struct {
		running       []*sequence
		sliding, left int
		rows, want    int
	}{
		// A generating sequence has at most 2 pages, and one that computes a chunk of 8 rows has 4.
		{nil, 0, 50, 100, 0}, {nil, 1, 8, 100, 0}, {nil, 1, 9, 100, 1}, {nil, 1, 13, 100, 2}, {nil, 1, 50, 100, 2}, {nil, 2, 50, 100, 4},
		{[]*sequence{prompting(20)}, 1, 50, 100, 4}, {[]*sequence{prompting(20)}, 1, 50, 4, 1 + 2}, {[]*sequence{prompting(8), decoding}, 1, 50, 100, 2},
	} {
		p := planner{running: c.running, prefillChunk: 8, limits: model.Limits{Rows: c.rows}, pool: cache.NewPool(4, 4, cache.Groups{})}
		require.Equal(t, c.want, p.chunkPages(prompting(c.left), cache.Groups{Full: 1, Sliding: c.sliding, Window: 4}), "%+v", c)
	}
}

// As many sequences run together as the cache was made for: it has pages for one whose prompt is
// computed in chunks, and for the others while they generate.
func TestAsManySequencesRunAsTheCacheIsFor(t *testing.T) {
	t.Parallel()
	for _, groups := range []cache.Groups{{}, {Full: 1, Sliding: 1, Window: 128}, {Full: 2, Sliding: 3, Window: 120}} {
		for _, n := range []int{2, 16, 64} {
			const size, prompt, answer, chunk = 16, 128, 64, 512
			context := prompt + answer
			p := planner{
				pool:         cache.NewPool(groups.Pages(context, chunk, size)+(n-1)*groups.Pages(context, 1, size), size, groups),
				maxSequences: n, limits: model.Limits{Context: context, Rows: 2048}, prefillChunk: chunk,
			}
			for i := range n - 1 {
				p.holding(int32(i), prompt, 1, answer-1)
			}
			s := &sequence{request: &request{prompt: append([]int32{-1}, ascending(prompt-1)...), limit: context}}
			s.tokens = s.request.prompt
			require.True(t, p.fits(s, 0), "%d sequences, %+v", n, groups)
		}
	}
}

// An answer goes on after the prompt's last text, be it of one byte: the space before it stays.
func TestAnswersBeginAfterThePrompt(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "a", "")
	word := f.tok.Encode("a b", tokenizer.EncodeOptions{Continues: true})
	for _, prompt := range [][]int32{f.encode("a"), append(f.encode("a"), f.tok.StopIDs()[0])} {
		require.Len(t, f.tok.Bytes(prompt[0]), 1)
		d := continuation(f.tok, prompt)
		var text []byte
		for _, id := range word[1:] {
			text = d.Append(text, id)
		}
		require.Equal(t, " b", string(text))
	}
	part := f.encode("ꙮ")[0] // the beginning of a character, which would wait for its end
	require.False(t, utf8.Valid(f.tok.Bytes(part)))
	require.Equal(t, continuation(f.tok, f.encode("a")), continuation(f.tok, append([]int32{part}, f.encode("a")...)), "only the last text counts")
}
