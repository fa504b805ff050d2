// Package draft proposes tokens for the model to verify (speculative decoding): by the model's MTP
// layer, by a small model or from n-grams of a sequence's own text. From the cost of steps and
// drafts and the share of right drafts, it decides how many tokens are worth drafting at the
// present batch size. Drafts never change the tokens of a sequence: the sampler alone chooses them.
package draft

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
)

// MaxDrafts returns the maximum number of drafts in a step of up to the given number of sequences.
// Each draft is a row that reaches the output head, so there must be memory for its logits.
func MaxDrafts(sequences int) int { return min(max(minDrafts, perSequence*sequences), maxDrafts) }

// MaxDrafts has perSequence drafts for each sequence, but at least minDrafts and at most maxDrafts.
const minDrafts, perSequence, maxDrafts = 64, 3, 192

// Options set up a Speculator.
type Options struct {
	Model model.Model   // verifies the drafts
	MTP   model.Drafter // the same model, if its MTP layer or an assistant drafts; otherwise nil
	// Attends reports whether MTP drafts with an assistant; see model.LoadAssistant.
	Attends bool
	Small   model.Model  // a small model that drafts; nil for none
	NGram   bool         // draft from the sequences' own texts
	Fixed   int          // number of tokens to draft for each sequence in a step; 0 to choose it by measured costs
	Limits  model.Limits // the limits with which Model and Small were loaded
	// Sequences is the number of sequences for which Limits.Outputs has room for drafts.
	Sequences int
	Steps     *cost.Steps // expected durations of steps of Model
	// MaxInFlight is the number of steps that may be submitted to the backend before a wait; 1 for
	// synchronous backends.
	MaxInFlight int
}

// Speculator drafts tokens for the sequences that generate, and measures how often they are
// accepted. The next step verifies the drafts: the token of each row is sampled as if nothing had
// been drafted, and is used if all drafts before it are right. Drafting therefore does not change
// tokens or their distribution.
type Speculator struct {
	limits  model.Limits
	room    int // maximum number of drafts in a step
	fixed   int
	ngram   bool
	chain   *chain // nil if neither an MTP layer nor a small model drafts
	planner planner
	trials  trials
	learned [kinds]learned // by kind of sequence

	idle         int // number of steps since the last drafts
	unprofitable int // number of recent steps in which drafting by passes was not worth its cost

	candidates []candidate // [Next.Decode] candidates of the planned step
	fresh      []candidate // candidates without a record, with which judge estimates whether drafting is worth its cost
}

// learned is what was measured of the drafts for a kind of sequence.
type learned struct {
	ngram, pass acceptance
	gate        gate // decides how many passes a sequence gets
}

// New makes a Speculator. It measures the cost of drafting passes. It must run before the first
// request, because it writes to pages of the cache.
func New(o Options) (*Speculator, error) {
	sp := &Speculator{
		limits: o.Limits, room: MaxDrafts(o.Sequences), fixed: o.Fixed, ngram: o.NGram, planner: planner{Verify: o.Steps, Limit: MaxTokens}, unprofitable: maxUnprofitable,
		trials: newTrials(o.MaxInFlight, o.Small != nil || o.MTP != nil),
	}
	for k := range sp.learned {
		sp.learned[k] = learned{ngram: newAcceptance(prior), pass: newAcceptance(passPrior), gate: newGate()}
	}
	switch {
	case o.Small != nil:
		sp.chain = newModelChain(o.Small, o.Limits.Rows)
	case o.MTP != nil:
		sp.chain = newMTPChain(o.MTP, o.Attends, o.Limits.Rows)
	}
	if err := sp.measure(o.Model); err != nil {
		return nil, err
	}
	return sp, nil
}

// MaxRun returns the maximum number of steps of the next run, between which nothing is drafted: the
// number of steps since the last drafts, but at least 1. While there may be no drafts, it is the
// number of steps until there may be some again. It is always 1 if Options.Fixed sets the number of
// drafts.
func (sp *Speculator) MaxRun() int {
	if sp.fixed > 0 {
		return 1
	}
	if !sp.drafts() {
		return sp.trials.left
	}
	return max(1, sp.idle)
}

// Waits reports whether another step can begin only after the results of the next step are known:
// the next step verifies drafts of s, or the MTP layer or small model processes its tokens.
func (sp *Speculator) Waits(s *Sequence) bool {
	return len(s.Drafts) > 0 || sp.chain != nil && sp.catchesUp()
}

// Prefill lets the MTP layer or small model process the prompts of a step that has been computed
// and whose results have not been delivered.
func (sp *Speculator) Prefill(prompts []*Sequence) error {
	if sp.chain == nil || len(prompts) == 0 || !sp.catchesUp() {
		return nil
	}
	return sp.chain.prefill(prompts)
}

// Observe records the results of a step, or of a number of steps that were in flight together. step
// lists the sequences of the last of these steps. Observe removes the sequences' drafts and returns
// how many were drafted and accepted. depends reports whether the duration of the steps depends on
// drafts, so that it says little about steps without drafts.
func (sp *Speculator) Observe(step []*Sequence, took Step) (c Counts, depends bool) {
	var last *Sequence // the sequence that probably ends last
	for _, s := range step {
		if last == nil || s.remaining() > last.remaining() {
			last = s
		}
	}
	ofLast := 0
	if last != nil {
		ofLast = last.Accepted
	}
	for _, s := range step {
		sp.learn(s)
		c.Drafted += len(s.Drafts)
		c.Accepted += s.Accepted
		s.Total.Drafted += len(s.Drafts)
		s.Total.Accepted += s.Accepted
		s.forget()
	}
	for k := range sp.learned {
		sp.learned[k].ngram.settle()
		sp.learned[k].pass.settle()
	}
	if sp.planner.Again = c.Drafted > 0; sp.planner.Again {
		sp.idle = 0
	} else {
		sp.idle += took.Steps
	}
	return c, sp.account(took, c, ofLast)
}

// account records a step in the trials. If sequences wait, an accepted draft saves a row of a step
// without drafts. Otherwise, drafts of the sequence that ends last save steps, and those of the
// others only what a row adds to a step. ofLast is the number of accepted drafts of that sequence.
func (sp *Speculator) account(took Step, c Counts, ofLast int) (depends bool) {
	reads := sp.planner.Reads
	without := took.Size
	without.Rows, without.Outputs, without.Reads = without.Rows-c.Drafted, without.Outputs-c.Drafted, max(0, without.Reads-c.Drafted*reads)
	verify, streams := sp.planner.Verify, max(1, without.Outputs)
	seconds := func(rows int) float64 {
		return verify.Seconds(cost.Size{Rows: rows, Outputs: rows, Reads: rows * reads})
	}
	saved := seconds(streams) / float64(streams) * float64(c.Accepted)
	if !took.Waiting && streams > 1 {
		row := seconds(streams) - seconds(streams-1)
		saved = seconds(streams)*float64(ofLast) + row*float64(c.Accepted-ofLast)
	}
	return sp.trials.observe(took, c.Drafted > 0, verify.Seconds(took.Size), verify.Seconds(without), saved)
}

func (sp *Speculator) learn(s *Sequence) {
	drafted := len(s.Drafts)
	tried := drafted
	if s.gated {
		tried++ // the draft that the gate dropped counts as wrong if all before it were accepted
	}
	if tried > 0 {
		s.record().Observe(tried, s.Accepted)
		if l := &sp.learned[s.kind()]; s.byNGram {
			l.ngram.Observe(tried, s.Accepted)
		} else {
			l.pass.Observe(tried, s.Accepted)
		}
	}
	if drafted > 0 && !s.byNGram {
		s.process(sp.chain.retained(drafted, s.Accepted))
		for i, confidence := range s.confidence[:min(drafted, s.Accepted+1)] {
			sp.learned[s.kind()].gate.Observe(confidence, i < s.Accepted)
		}
	}
}

// rest records a step in which drafting was not worth its cost.
func (sp *Speculator) rest() {
	for k := range sp.learned {
		sp.learned[k].ngram.rest()
		sp.learned[k].pass.rest()
	}
}

// gates returns what decides how many passes a sequence gets; nil if Options.Fixed sets the number.
func (sp *Speculator) gates() *[kinds]learned {
	if sp.fixed > 0 {
		return nil
	}
	return &sp.learned
}

// measure measures the duration of drafting passes. It must run before the first request: it writes
// to pages of the cache.
func (sp *Speculator) measure(m model.Model) error {
	if sp.chain == nil {
		return nil
	}
	vocab := m.Config().Vocab
	sizes := sp.planner.Verify.Sizes()
	passes := make([]*pass, len(sizes))
	groups := m.Config().Groups(sp.limits)
	for i, n := range sizes {
		p := &pass{Batch: *cost.FirstTokens(n, vocab)}
		for k := range p.Seqs { // all groups of layers overwrite the same page, which does not change how long a pass takes
			p.Seqs[k].Further = slices.Repeat([][]int32{p.Seqs[k].Pages}, groups.Full+groups.Sliding-1)
		}
		for state := range int32(n) {
			p.states = append(p.states, state)
		}
		passes[i] = p
	}
	// An MTP layer reads the hidden states of the step before it, so this step must have as many
	// rows as the largest pass.
	if _, err := m.Forward(&passes[len(passes)-1].Batch); err != nil {
		return fmt.Errorf("measure the cost of drafting: %w", err)
	}
	var err error
	if sp.planner.Pass, err = cost.MeasureCurve(sizes, func(i int) error { return sp.chain.forward(passes[i], true) }); err != nil {
		return fmt.Errorf("measure the cost of drafting: %w", err)
	}
	return nil
}
