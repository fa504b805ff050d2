// Package bench measures an engine: the speed of prompts and answers through Generate, so with all that a row meets on its
// way but the queue, against what the machine's memory could give; and the operations of a backend one by one.
package bench

import (
	"fmt"
	"math/rand/v2"

	"github.com/ingot-run/ingot/generation"
)

// Mode is what of a request is measured.
type Mode string

// The modes.
const (
	Prefill Mode = "prefill" // the prompts: computed tokens, from the start to the last stream's first generated token
	Decode  Mode = "decode"  // the answers: tokens of all streams while all of them generate
	Full    Mode = "full"    // requests as they come: generated tokens, from the start to the end of the last one
)

// ParseMode reads a mode's name.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Prefill, Decode, Full:
		return m, nil
	}
	return "", fmt.Errorf("mode %q is not known: use prefill, decode or full", s)
}

// Case is one thing to measure: Rows requests, Batch of them at a time, of random tokens that no two of them share but for
// Shared.
type Case struct {
	Mode    Mode
	Batch   int // requests in the engine at a time
	Rows    int // requests of a run; 0 for Batch
	Prompt  int // tokens of a prompt after Context
	Gen     int // tokens of an answer; stop tokens do not end it. In mode prefill it is 1, whatever is given
	Context int // tokens before the prompt, which the cache holds before a run is timed
	Shared  int // leading tokens of Prompt that all prompts of a run have in common

	// Requests are asked in place of random ones, where there are any; Rows, Prompt, Gen, Context and Shared are then 0.
	Requests []generation.Request
}

// maxSeed separates the random tokens of contexts from those of runs.
const maxSeed = 1 << 32

// check reports the first setting that cannot be measured.
func (c *Case) check() error {
	switch {
	case c.Batch < 1:
		return fmt.Errorf("a batch of %d: it must be at least 1", c.Batch)
	case c.Requests != nil:
		return nil
	case c.Prompt < 1:
		return fmt.Errorf("a prompt of %d tokens: it must be at least 1", c.Prompt)
	case c.Mode == Decode && c.Gen < 2:
		return fmt.Errorf("an answer of %d tokens: decoding begins after the first", c.Gen)
	case c.Gen < 1:
		return fmt.Errorf("an answer of %d tokens: it must be at least 1", c.Gen)
	case c.Context < 0 || c.Rows < 0:
		return fmt.Errorf("a context of %d tokens and %d rows: neither can be negative", c.Context, c.Rows)
	case c.Shared < 0 || c.Shared > c.Prompt:
		return fmt.Errorf("%d shared tokens of prompts of %d", c.Shared, c.Prompt)
	}
	return nil
}

// requests are those of a run. Those of one context follow the same one in every run.
func (c *Case) requests(run uint64, vocab int) []generation.Request {
	if c.Requests != nil {
		reqs := make([]generation.Request, len(c.Requests))
		for i, r := range c.Requests {
			r.Timed = true
			reqs[i] = r
		}
		return reqs
	}
	shared := tokens(run, maxSeed, c.Shared, vocab)
	reqs := make([]generation.Request, max(c.Rows, c.Batch))
	for i := range reqs {
		prompt := c.context(i%c.Batch, vocab)
		prompt = append(prompt, shared...)
		prompt = append(prompt, tokens(run, uint64(i), c.Prompt-c.Shared, vocab)...)
		reqs[i] = generation.Request{Tokens: prompt, MaxTokens: c.Gen, IgnoreEOS: true, Timed: true}
	}
	return reqs
}

// context is the tokens before a stream's prompts.
func (c *Case) context(stream, vocab int) []int32 {
	return tokens(maxSeed, uint64(stream), c.Context, vocab)
}

// tokens are random ids that two seeds determine.
func tokens(a, b uint64, n, vocab int) []int32 {
	r := rand.New(rand.NewPCG(a, b))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(int32(vocab))
	}
	return ids
}
