package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/internal/chat"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// formed has a constraint of a small model's vocabulary.
type formed struct {
	t    *testing.T
	tok  *tokenizer.Tokenizer
	tags *chat.Tags
	form *Form
}

// newFormed compiles a regular expression. begin is the end of the prompt: where reasoning may
// begin, or has begun. If it is empty, the answer has no reasoning.
func newFormed(t *testing.T, regex, begin string) formed {
	t.Helper()
	f, err := gguf.Open(microLlama)
	require.NoError(t, err)
	defer f.Close()
	tok, err := tokenizer.New(f.Meta())
	require.NoError(t, err)
	m := manual{t, &Scheduler{tokenizer: tok}}
	form := m.form(generation.Constraint{Regex: regex}, grammar.Limits{})
	tags := chat.NewTags(tok, chat.TagPair{Open: "<think>", Close: "</think>"})
	if begin != "" {
		form.Thinking = tags.Begin(begin)
	}
	return formed{t, tok, tags, form}
}

func (f formed) encode(text string) []int32 {
	return f.tok.Encode(text, tokenizer.EncodeOptions{Continues: true})
}

func (f formed) guide(minTokens int) *guide {
	return newGuide(f.form, f.form.Grammar.NewMatcher(), minTokens)
}

func (f formed) advance(g *guide, ids ...int32) {
	f.t.Helper()
	for i, id := range ids {
		require.NoError(f.t, g.advance(id), "token %d of %v", i, ids)
	}
}

// allowed reports whether the present mask allows a token.
func (f formed) allowed(g *guide, id int32) bool {
	f.t.Helper()
	mask := make([]uint32, (f.tok.Size()+31)/32)
	g.mask(mask, &g.place)
	require.NoError(f.t, g.err)
	return mask[id/32]>>(id%32)&1 == 1
}

// In reasoning, all tokens may follow but stop tokens and those that end it and begin the content.
// After it come line breaks, and the text of the form.
func TestAGuideThroughReasoning(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "Q[0-9]{3}Z", "<think>")
	g := f.guide(0)
	stop := f.form.End
	for _, id := range f.encode("a thought</think") {
		require.False(t, g.place.masked())
		excluded := g.excluded([]int32{-1}, &g.place)
		require.Equal(t, slices.Concat([]int32{-1}, f.form.Ends, g.thinking.Crossing()), excluded)
		require.Empty(t, g.forced)
		f.advance(g, id)
	}
	require.Zero(t, g.matched)
	early := *g
	require.ErrorIs(t, g.advance(stop), errNotAllowed)
	g.place = early.place
	f.advance(g, f.encode(">")...)
	require.Equal(t, chat.StageGap, g.thinking.Stage())
	require.True(t, g.place.masked())
	lineBreak := f.tags.Breaks[0]
	require.True(t, f.allowed(g, lineBreak))
	require.True(t, f.allowed(g, f.encode("Q")[0]))
	require.False(t, f.allowed(g, f.encode("a")[0]))
	require.Empty(t, g.forced, "a line break may follow, too")
	f.advance(g, lineBreak)
	require.Equal(t, f.encode("Q")[0], g.forced[0], "only the text of the form may follow")
	require.ErrorIs(t, g.advance(f.encode("a")[0]), errNotAllowed)
	f.advance(g, f.encode("Q")...)
	require.False(t, f.allowed(g, lineBreak))
	require.False(t, f.allowed(g, stop))
	require.Equal(t, 1, g.matched)
	f.advance(g, f.encode("Q123")[1:]...)
	require.Equal(t, f.encode("Z"), g.forced)
	f.advance(g, f.encode("Z")...)
	require.Equal(t, []int32{stop}, g.forced, "nothing else may follow")
	length := g.length
	f.advance(g, stop)
	require.True(t, g.ended)
	require.Equal(t, length+1, g.length)
	require.ErrorIs(t, g.advance(stop), errNotAllowed)
}

// Where reasoning may begin, the opening tag is allowed, and space before it is not a part of the
// content.
func TestWhereReasoningMayBegin(t *testing.T) {
	t.Parallel()
	f := newFormed(t, " ?[xyz]{3}", "Answer:")
	require.NotEmpty(t, f.tags.Openers, "the vocabulary has tokens that begin with the tag")
	g := f.guide(0)
	require.Equal(t, chat.StageStart, g.thinking.Stage())
	require.True(t, g.place.masked())
	require.Empty(t, g.forced)
	require.Zero(t, g.look(f.encode("xyz")), "drafts could not be undone")
	require.Equal(t, []place{g.place}, g.ahead)
	for _, id := range f.tags.Openers {
		require.True(t, f.allowed(g, id))
	}
	require.True(t, f.allowed(g, f.encode("x")[0]))
	require.False(t, f.allowed(g, f.encode("a")[0]))
	f.advance(g, f.encode(" ")...)
	require.Equal(t, 1, g.matched)
	require.True(t, f.allowed(g, f.tags.Openers[0]))
	f.advance(g, f.tags.Openers[0])
	require.Equal(t, chat.StageReasoning, g.thinking.Stage())
	require.Zero(t, g.matched)
	f.advance(g, f.encode("xx</think>")...)
	f.advance(g, f.encode(" ")...)
	require.Equal(t, 1, g.matched, "the space is one of the content now")

	g = f.guide(0)
	f.advance(g, f.encode("x")...)
	require.Equal(t, chat.StageContent, g.thinking.Stage())
	require.False(t, f.allowed(g, f.tags.Openers[0]))
}

// A guide that looks ahead finds how many drafts may follow, and the masks after each of them. It
// stays where it is.
func TestAGuideLooksAhead(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "[ab]{2}(known)[cd]{0,3}", "")
	ids := slices.Concat(f.encode("a"), f.encode("b"), f.encode("known"), f.encode("c"), f.encode("d"))
	stop := f.form.End
	for name, c := range map[string]struct {
		drafts []int32
		want   int
	}{
		"none":                 {nil, 0},
		"one that may follow":  {ids[:1], 1},
		"all":                  {ids, len(ids)},
		"a wrong one":          {f.encode("k"), 0},
		"wrong after two":      {append(slices.Clone(ids[:2]), f.encode("a")...), 2},
		"the end":              {append(slices.Clone(ids), stop), len(ids) + 1},
		"nothing after it":     {append(slices.Clone(ids), stop, stop), len(ids) + 1},
		"the end is too early": {append(slices.Clone(ids[:2]), stop), 2},
	} {
		g := f.guide(0)
		before := g.place
		require.Equal(t, c.want, g.look(c.drafts), name)
		require.Equal(t, before, g.place, name)
		require.Len(t, g.ahead, c.want+1, name)
		f.advance(g, ids[0]) // the matcher is where it was
		g = f.guide(0)
		require.Equal(t, c.want, g.look(c.drafts))
		g.begin(c.want)
		require.False(t, g.masks())
		want := make([][]uint32, c.want+1)
		for i := range g.slots {
			if len(g.ahead[i].forced) > 0 || g.ahead[i].ended {
				continue
			}
			g.slots[i] = make([]uint32, (f.tok.Size()+31)/32)
			want[i] = make([]uint32, (f.tok.Size()+31)/32)
			plain := f.guide(0)
			f.advance(plain, c.drafts[:i]...)
			plain.mask(want[i], &plain.place)
			require.NoError(t, plain.err)
		}
		require.True(t, g.masks(), name)
		g.computeMasks(c.drafts)
		require.NoError(t, g.err, name)
		require.Equal(t, want, g.slots, name)
		require.Equal(t, before, g.place, name)
		require.Positive(t, g.maskTime)
		g.begin(0)
		require.Len(t, g.slots, 1)
		require.Nil(t, g.slots[0])
		require.Equal(t, []place{before}, g.ahead)
	}
}

// Drafts can have line breaks between the reasoning and the text of the form. The matcher does not
// know them.
func TestAGuideLooksBeyondReasoning(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "[QR][0-9]{2}", "<think>")
	drafts := append([]int32{f.tags.Breaks[0]}, f.encode("Q1")...)
	g, plain := f.guide(0), f.guide(0)
	for _, each := range []*guide{g, plain} {
		f.advance(each, f.encode("x</think>")...)
		require.Equal(t, chat.StageGap, each.thinking.Stage())
	}
	require.Equal(t, len(drafts), g.look(drafts))
	g.begin(len(drafts))
	for i := range g.slots {
		g.slots[i] = make([]uint32, (f.tok.Size()+31)/32)
	}
	g.computeMasks(drafts)
	require.NoError(t, g.err)
	for i, id := range drafts {
		want := make([]uint32, len(g.slots[i]))
		plain.mask(want, &plain.place)
		require.Equal(t, want, g.slots[i], "before draft %d", i)
		f.advance(plain, id)
		g.reach(g.ahead[i+1], id)
		require.NoError(t, g.err)
		require.Equal(t, plain.place, g.place)
	}
}

// A sequence follows the tokens of its answer, and is given those that must follow. Drafts lead to
// the same place.
func TestASequenceFollowsItsForm(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "[ab]{2}-known-[0-9]{2}", "")
	of := func(drafts ...int32) *sequence {
		r := &generation.Request{MaxTokens: 50}
		made, err := newRequest(t.Context(), f.tok, 100, time.Now(), []int32{5, 6}, r, f.form)
		require.NoError(t, err)
		s := made.seqs[0]
		require.Empty(t, s.answer())
		s.draft.Drafts = drafts
		if len(drafts) > 0 {
			require.Equal(t, len(drafts), s.guide.look(drafts))
		}
		return s
	}
	a, c := f.encode("a")[0], f.encode("7")[0]
	known := f.encode("-known-")
	for name, drafts := range map[string][]int32{
		"no drafts":        nil,
		"an accepted one":  {a},
		"two, accepted":    {a, a},
		"one is rejected":  {f.encode("b")[0]},
		"two are rejected": {f.encode("b")[0], a},
		"forced ones":      append([]int32{a, a}, known...),
	} {
		s := of(drafts...)
		s.accept(a, true)
		s.accept(a, true)
		s.follow()
		require.NoError(t, s.guide.err, name)
		require.Equal(t, append([]int32{a, a}, known...), s.answer(), name)
		require.Equal(t, []int{2, len(known)}, []int{s.guide.masked, s.guide.forcedTokens}, name)
		require.Equal(t, len(s.answer()), s.guide.length, name)
		require.Empty(t, s.guide.ahead)
		s.draft.Drafts = nil
		s.accept(c, true)
		s.accept(c, true)
		s.follow()
		require.Equal(t, append(append([]int32{a, a}, known...), c, c, f.form.End), s.answer(), name)
		require.Equal(t, generation.FinishStop, s.reason)
		require.Equal(t, []int{4, len(known) + 1}, []int{s.guide.masked, s.guide.forcedTokens}, name)
	}
	s := of()
	s.accept(f.encode("k")[0], true)
	s.follow()
	require.ErrorIs(t, s.guide.err, errNotAllowed)
}

// The tokens with which an answer must begin are known before the first step. A form whose only
// answer is too short is refused there.
func TestTheBeginningOfAForm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		regex, think, known string
		minTokens           int
		whole               bool
		err                 string
	}{
		"a beginning":         {regex: "-known-[0-9]", known: "-known-"},
		"a long enough one":   {regex: "-known-[0-9]", known: "-known-", minTokens: 2},
		"no beginning":        {regex: "[0-9]-known-"},
		"a whole answer":      {regex: "-known-", known: "-known-", whole: true},
		"a short answer":      {regex: "-known-", minTokens: 50, err: "lower min_tokens"},
		"after the reasoning": {regex: "-known-", think: "<think>"},
	} {
		f := newFormed(t, c.regex, c.think)
		req := &generation.Request{Tokens: []int32{5, 6}, MinTokens: c.minTokens, N: 2, Timed: true}
		r, err := newRequest(t.Context(), f.tok, 100, time.Now(), req.Tokens, req, f.form)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, name)
			require.ErrorIs(t, err, generation.ErrBadRequest, name)
			continue
		}
		require.NoError(t, err, name)
		want := append([]int32{}, f.encode(c.known)...)
		if c.whole {
			want = append(want, f.form.End)
		}
		for _, s := range r.seqs {
			require.Equal(t, want, s.answer(), name)
			require.Equal(t, c.whole, s.ended(), name)
			if c.whole {
				require.Len(t, s.times, len(want), name)
			}
		}
	}
}

// An answer in a form is never shorter than its minimum, and ends with any of the tokens that may
// end it.
func TestTheEndOfAForm(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "a(#b)?", "")
	further := f.form.End + 1
	for f.tok.Bytes(further) == nil || further == f.encode("#")[0] {
		further++
	}
	f.form.Further = []int32{further}
	f.form.Ends = append(slices.Clone(f.form.Ends), further)
	slices.Sort(f.form.Ends)
	g := f.guide(2)
	require.NoError(t, g.force())
	require.Equal(t, f.encode("a"), g.forced)
	f.advance(g, g.forced...)
	require.Empty(t, g.forced)
	require.True(t, f.allowed(g, further), "the text may end")
	require.True(t, f.allowed(g, f.form.End))
	f.advance(g, f.encode("#")...)
	require.Equal(t, f.encode("b"), g.forced)
	f.advance(g, g.forced...)
	require.Equal(t, []int32{f.form.End}, g.forced)
	g = f.guide(4)
	f.advance(g, f.encode("a#")...)
	err := g.advance(f.encode("b")[0])
	require.ErrorIs(t, err, generation.ErrBadRequest)
	require.ErrorContains(t, err, `"min_tokens" is 4, but the answer in the requested form is complete after 3 tokens`)
	g = f.guide(0)
	require.False(t, f.allowed(g, further), "the text is not complete")
	f.advance(g, f.encode("a")...)
	f.advance(g, further)
	require.True(t, g.ended)
}

// A form whose necessary text costs too much work to find is an error about the form.
func TestANecessaryTextThatCostsTooMuch(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "Q[0-9](QUOTE){50}Z", "")
	f.form = manual{t, &Scheduler{tokenizer: f.tok}}.form(generation.Constraint{Regex: "Q[0-9](QUOTE){50}Z"}, grammar.Limits{MaskWork: 10})
	g := f.guide(0)
	err := g.force()
	for _, id := range f.encode("Q1") {
		if err == nil {
			err = g.advance(id)
		}
	}
	require.ErrorContains(t, err, "find the tokens that must follow")
	require.ErrorIs(t, err, generation.ErrForm)
	require.ErrorIs(t, err, grammar.ErrBudget)
}
