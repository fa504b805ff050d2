package schedule

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// answerRoom is the number of tokens of an answer for which memory is set aside at once.
const answerRoom = 1024

// request is a call of Generate: its settings, and the state that its sequences share. It shares no
// memory with the caller, because the caller may return while the loop still runs the request.
type request struct {
	// newRequest sets these fields. They do not change.

	ctx          context.Context
	seqs         []*sequence // one per choice, or a single one if nothing is generated
	prompt       []int32
	limit        int // maximum number of tokens of a sequence, the prompt's included
	minTokens    int
	stopIDs      []int32 // distinct, in ascending order
	shown        []int32 // control tokens whose names are a part of the text
	choices      int
	scores       bool // log-probabilities of the answers' tokens are requested
	scoresPrompt bool // log-probabilities of the prompt's tokens are requested
	promptOnly   bool
	timed        bool
	interactive  bool
	stream       *stream // nil if the answer is not streamed
	maxScores    int     // maximum number of log-probabilities of a completion, alternatives included; 0 for no limit
	began        time.Time
	done         chan struct{} // closed when all sequences have ended
	report       func()        // reports the request's progress; nil for no reports
	reportEvery  time.Duration
	resumed      int // tokens of the answers that an earlier attempt generated

	// These fields belong to the loop until done is closed.

	nextReport   time.Time
	scored       int    // number of log-probabilities so far
	open         int    // number of sequences that have not ended
	running      int    // number of sequences that have pages
	turn         uint64 // planner.turns when the request was queued or last got or lost a slot
	ranked       int    // working memory of planner.victims
	err          error  // why the request failed
	promptScores scores // log-probabilities of the prompt's tokens from the second on
	figures      figures
}

// newRequest makes a request and its sequences. It copies prompt, which has the prompt's ids.
// context is the maximum number of positions of a sequence, and began is when Generate was called.
// form is the constraint; nil for none.
func newRequest(ctx context.Context, t *tokenizer.Tokenizer, context int, began time.Time, prompt []int32, req *generation.Request, form *Form) (*request, error) {
	limit, err := lengthLimit(context, len(prompt), req)
	if err != nil {
		return nil, err
	}
	r := &request{
		ctx: ctx, began: began, done: make(chan struct{}),
		prompt: slices.Clone(prompt), limit: limit, minTokens: req.MinTokens, choices: req.NumChoices(),
		shown:  slices.Clone(req.Shown),
		scores: req.Logprobs, scoresPrompt: req.PromptLogprobs, promptOnly: req.PromptOnly, timed: req.Timed, interactive: req.Interactive,
		promptScores: scores{top: req.TopLogprobs},
	}
	if !req.IgnoreEOS {
		r.stopIDs = append(r.stopIDs, t.StopIDs()...)
	}
	r.stopIDs = append(r.stopIDs, req.StopIDs...)
	slices.Sort(r.stopIDs)
	r.stopIDs = slices.Compact(r.stopIDs)

	n := r.choices
	if r.promptOnly {
		n = 1
	}
	r.seqs = newSequences(t, r, n, req, form)
	if !r.promptOnly || r.scoresPrompt && len(r.prompt) > 1 {
		r.open = n // stays 0 if there is nothing to compute
	}
	if p := req.Resume; p != nil && req.Resumable() && !r.resume(p) {
		r.seqs = newSequences(t, r, n, req, form)
	}
	if err := r.force(); err != nil {
		return nil, err
	}
	if to := req.Progress.To; to != nil && req.Resumable() {
		r.reportEvery, r.nextReport = req.Progress.Every, began.Add(req.Progress.Every)
		r.report = func() { to(r.progress()) }
	}
	if req.Stream != nil {
		r.stream = newStream(r.seqs, t)
		for _, s := range r.seqs {
			if s.ended() {
				r.stream.add(s) // no step will do so
			}
		}
	}
	return r, nil
}

// force appends the tokens with which the answers must begin. If these are whole answers, nothing
// has to be computed.
func (r *request) force() error {
	for _, s := range r.seqs {
		if s.guide == nil || len(s.answer()) > 0 {
			continue
		}
		if s.follow(); s.guide.err != nil {
			return s.guide.err
		}
		s.write()
		for r.timed && s.ended() && len(s.times) < len(s.answer()) {
			s.times = append(s.times, r.began)
		}
	}
	return nil
}

func lengthLimit(context, prompt int, req *generation.Request) (int, error) {
	room := context - prompt
	switch {
	case room < 0:
		return 0, generation.TooLong("the prompt has %d tokens; the context holds %d", prompt, context)
	case req.PromptOnly:
		return prompt, nil
	case room == 0:
		return 0, generation.TooLong("the prompt has %d tokens and fills the context, so that nothing can be generated", prompt)
	}
	return prompt + min(room, cmp.Or(req.MaxTokens, room)), nil
}

// resume gives the sequences the tokens that an earlier attempt generated. As after a preemption,
// these tokens are computed again like a prompt. resume returns false if the tokens continue after
// the point where the request's answer ends, or if the constraint does not allow them. If it
// returns false, the sequences must not be used.
func (r *request) resume(p *generation.Progress) bool {
	for i, s := range r.seqs {
		ids := p.Choices[i]
		s.tokens = append(make([]int32, 0, min(r.limit, len(r.prompt)+len(ids)+answerRoom)), r.prompt...)
		for _, id := range ids {
			if s.ended() {
				return false
			}
			s.accept(id, s.mayEnd(0))
		}
		s.counted = len(ids)
		if g := s.guide; g != nil && len(ids) > 0 {
			if s.follow(); g.err != nil {
				return false
			}
			g.masked, g.forcedTokens = 0, 0
		}
		s.write()
	}
	r.resumed = p.Tokens()
	return true
}

func (r *request) progress() generation.Progress {
	p := generation.Progress{Prompt: generation.HashPrompt(r.prompt)}
	for _, s := range r.seqs {
		p.Choices = append(p.Choices, slices.Clone(s.answer()))
	}
	return p
}

// count adds to the number of log-probabilities, and fails the request if there are too many.
func (r *request) count(scores int) {
	r.scored += scores
	if r.maxScores > 0 && r.scored > r.maxScores {
		r.fail(generation.BadRequest("the result has more than %d log-probabilities, the maximum for the memory of prompts and answers: "+
			"request fewer choices, tokens or alternatives (top_logprobs)", r.maxScores))
	}
}

// fail ends the request with an error. If it is called several times, the first error counts.
func (r *request) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *request) completion(t *tokenizer.Tokenizer) generation.Completion {
	n := newNames(t)
	out := generation.Completion{PromptTokens: r.prompt, Choices: make([]generation.Choice, r.choices), Stats: r.stats()}
	if r.scoresPrompt {
		out.PromptLogprobs = append(out.PromptLogprobs, n.of(r.prompt[0]))
		out.PromptLogprobs = append(out.PromptLogprobs, r.promptScores.logprobs(n)...)
	}
	for i := range out.Choices {
		if r.promptOnly {
			out.Choices[i].FinishReason = generation.FinishLength
			continue
		}
		s := r.seqs[i]
		out.Choices[i] = generation.Choice{Text: string(s.text.text), Tokens: s.answer(), FinishReason: s.reason, StopReason: s.stopReason, Times: s.times}
		if r.scores {
			out.Choices[i].Logprobs = s.scores.logprobs(n)
		}
	}
	return out
}

func (r *request) stats() generation.Stats {
	f := &r.figures
	s := generation.Stats{PromptTokens: len(r.prompt), CachedTokens: f.cached, ResumedTokens: r.resumed, Total: time.Since(r.began), Steps: f.steps}
	for _, seq := range r.seqs {
		s.CompletionTokens += len(seq.answer())
		s.DraftTokens += seq.draft.Total.Drafted
		s.AcceptedTokens += seq.draft.Total.Accepted
		if g := seq.guide; g != nil {
			s.MaskedTokens, s.ForcedTokens, s.MaskTime = s.MaskedTokens+g.masked, s.ForcedTokens+g.forcedTokens, s.MaskTime+g.maskTime
		}
	}
	if !f.first.IsZero() {
		s.TTFT = f.first.Sub(r.began)
		s.Prefill = f.first.Sub(f.admitted)
		s.Decode = f.last.Sub(f.first)
	}
	if f.steps > 0 {
		s.BatchMean = float64(f.batchSizes) / float64(f.steps)
	}
	return s
}

type figures struct {
	admitted    time.Time // admission of its first sequence
	first, last time.Time // times of its first and last generated tokens
	lastStep    uint64    // number of the last step with rows of the request
	steps       int
	batchSizes  int // sum of the numbers of sequences in these steps
	cached      int // prompt tokens that the first choice found in the cache
}

// step records that the request took part in step number n, whose batch has the given number of
// sequences.
func (f *figures) step(n uint64, sequences int) {
	if f.lastStep == n {
		return
	}
	f.lastStep = n
	f.steps++
	f.batchSizes += sequences
}

func (f *figures) token(now time.Time) {
	if f.first.IsZero() {
		f.first = now
	}
	f.last = now
}
