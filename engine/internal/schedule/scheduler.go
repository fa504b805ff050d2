// Package schedule runs many requests at once through one model: continuous batching. It takes
// prompts as token ids and returns completions.
//
// The loop is the goroutine that owns the model. Between two steps it releases the sequences that
// have ended and admits those that wait. A step has a row for each sequence that is generating and,
// up to a maximum of rows and time, rows of prompts and drafts.
package schedule

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// Options set up a Scheduler.
type Options struct {
	Model        model.Model
	Limits       model.Limits
	Tokenizer    *tokenizer.Tokenizer
	Speculator   *draft.Speculator // nil to draft nothing
	Steps        *cost.Steps       // expected durations of steps; nil to plan steps without time limits
	StepTime     time.Duration     // maximum duration of a step with prompts; 0 to derive it from Steps
	MaxInFlight  int               // number of steps that may be submitted to the backend before a wait
	MaxSequences int               // maximum number of sequences of a step
	PrefillChunk int               // maximum number of rows of one prompt in a step
	MaxResult    int64             // maximum bytes of a completion with log-probabilities and of the JSON made from it; 0 for no limit
	NoSharing    bool              // compute every prompt in full, even if its beginning is in the cache
	Trace        func(compute.Checkpoint)
}

// Outputs returns the maximum number of rows of a step that reach the output head: the value of
// model.Limits.Outputs.
func Outputs(maxSequences int) int {
	return maxSequences + maxPromptOutputs + draft.MaxDrafts(maxSequences)
}

// Scheduler runs the requests of many callers.
type Scheduler struct {
	tokenizer *tokenizer.Tokenizer
	context   int // maximum positions of a sequence
	maxScores int // maximum number of log-probabilities of a completion; 0 for no limit
	inbox     *inbox
	meter     meter
	loop      *loop
}

// New returns a scheduler. It answers requests once Run is called.
func New(o Options) *Scheduler {
	s := &Scheduler{tokenizer: o.Tokenizer, context: o.Limits.Context, maxScores: int(o.MaxResult / scoreBytes), inbox: &inbox{wake: make(chan struct{}, 1)}}
	s.meter.now.PagesTotal = o.Limits.Pages
	guides := newGuides(o.Model.Config().Vocab, o.MaxInFlight > 1)
	s.loop = &loop{
		model: o.Model, costs: o.Steps, top: min(model.MaxTop, o.Model.Config().Vocab),
		inbox: s.inbox, meter: &s.meter, done: make(chan struct{}), failed: make(chan struct{}),
		planner:     newPlanner(&o),
		batch:       batch{rows: compute.Batch{Trace: o.Trace}, guides: guides},
		guides:      guides,
		interrupter: newInterrupter(s.inbox),
		drawer:      drawer{model: o.Model},
		writer:      newWriter(o.MaxInFlight > 1),
		drafting:    drafting{speculator: o.Speculator},
	}
	s.loop.batch.states = s.loop.planner.states
	s.loop.prepare = s.loop.prepareStep
	return s
}

// Groups returns the groups of layers of a model that is loaded with the given limits. Each group
// has a separate page table.
func Groups(c model.Config, lim model.Limits) cache.Groups {
	g := c.Groups(lim)
	return cache.Groups{Full: g.Full, Sliding: g.Sliding, Window: g.Window}
}

// Run answers requests until Close is called, or until two steps in a row have panicked. Call it
// once, on a separate goroutine.
func (s *Scheduler) Run() { s.loop.run() }

// Close fails all requests that are not done, and waits until Run has returned.
func (s *Scheduler) Close() {
	s.inbox.close(generation.ErrClosed)
	<-s.loop.done
}

// Generate continues a prompt, which is given as ids. req has the settings, which must be valid.
// The prompt in req is not read. form is the request's constraint; nil for none. start is the time
// of the call, for the statistics.
//
// Generate is safe to call from many goroutines. Their requests share steps, but none changes the
// tokens of another. It returns ctx's error as soon as ctx is done. Other errors wrap
// generation.ErrBadRequest if the request can never be answered, generation.ErrClosed if the
// scheduler was closed before the request was done, generation.ErrEngineFailed if the scheduler
// stopped after panics, and generation.ErrNotFinite if logits are not finite. Errors of req.Stream
// and req.Reserve are returned unchanged.
func (s *Scheduler) Generate(ctx context.Context, start time.Time, prompt []int32, req *generation.Request, form *Form) (generation.Completion, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the loop then drops the request if it has not ended
	r, err := newRequest(ctx, s.tokenizer, s.context, start, prompt, req, form)
	if err != nil {
		return generation.Completion{}, err
	}
	r.maxScores = s.maxScores
	if r.open > 0 {
		if err := s.answer(ctx, r, req.Stream); err != nil {
			return generation.Completion{}, err
		}
	}
	if req.Reserve != nil && r.scored > 0 {
		if err := req.Reserve(ctx, int64(r.scored)*scoreBytes); err != nil {
			return generation.Completion{}, err
		}
	}
	return r.completion(s.tokenizer), nil
}

// Check returns an error if a request with a prompt of the given number of tokens is too long for
// the context.
func (s *Scheduler) Check(prompt int, req *generation.Request) error {
	_, err := lengthLimit(s.context, prompt, req)
	return err
}

// answer puts a request into the inbox and waits until it is done. Meanwhile it passes the pieces
// of a streamed answer to a function.
func (s *Scheduler) answer(ctx context.Context, r *request, to func(generation.Piece) error) error {
	if err := s.inbox.put(r); err != nil {
		return err
	}
	for {
		select {
		case <-r.done:
			if r.err != nil {
				return r.err
			}
			return r.stream.deliver(to)
		case <-r.stream.news():
			if err := r.stream.deliver(to); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-s.loop.failed:
			return s.loop.err
		}
	}
}

// Snapshot returns the present state and counts.
func (s *Scheduler) Snapshot() Snapshot {
	now := s.meter.read()
	now.Waiting += s.inbox.sequences()
	return now
}
