package schedule

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
)

// call has the settings and the state that the sequences of a request share. The fields of the first group are set before the loop gets the
// call and do not change afterwards. The other fields belong to the loop until done is closed. A call shares no memory with the caller,
// because the caller may return while the loop still runs the call.
type call struct {
	ctx          context.Context
	prompt       []int32
	limit        int // maximum number of tokens of a sequence, the prompt's included
	minTokens    int
	stopIDs      []int32
	choices      int
	scores       bool // log-probabilities of the answers' tokens are requested
	scoresPrompt bool // log-probabilities of the prompt's tokens are requested
	promptOnly   bool
	timed        bool
	interactive  bool
	stream       *stream // nil if the answer is not streamed
	maxScores    int     // maximum number of log-probabilities of a completion, alternatives included; 0 for no limit
	start        time.Time
	done         chan struct{} // closed when all sequences have ended
	report       func()        // reports the request's progress; nil for no reports
	reportEvery  time.Duration
	resumed      int // tokens of the answers that an earlier attempt generated

	nextReport   time.Time
	scored       int    // number of log-probabilities so far
	open         int    // number of sequences that have not ended
	err          error  // why the request failed
	promptScores scores // log-probabilities of the prompt's tokens from the second on
	figures      figures
}

// count adds to the number of log-probabilities, and fails the request if there are too many.
func (c *call) count(scores int) {
	c.scored += scores
	if c.maxScores > 0 && c.scored > c.maxScores {
		c.fail(generation.BadRequest("the result has more than %d log-probabilities, the maximum for the memory of prompts and answers: "+
			"request fewer choices, tokens or alternatives (top_logprobs)", c.maxScores))
	}
}

// fail ends the request with an error. If it is called several times, the first error counts.
func (c *call) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}
