// Package bench measures the speed of an engine and compares it with the memory bandwidth. It sends
// requests through Generate, so that everything except the queue is included. Its package kernels
// measures single operations of a backend, shape makes models with random weights, and roofline
// predicts the speed of a model on Apple's chips.
package bench

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ingot-run/ingot/engine/generation"
)

// Mode is the part of a request that is measured.
type Mode string

// The modes.
const (
	Prefill Mode = "prefill" // prompts: computed tokens, from the start until every stream has its first generated token
	Decode  Mode = "decode"  // answers: tokens of all streams while all of them generate
	Full    Mode = "full"    // whole requests: generated tokens, from the start to the end of the last request
)

// ParseMode reads a mode's name.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Prefill, Decode, Full:
		return m, nil
	}
	return "", fmt.Errorf("mode %q is not known: use prefill, decode or full", s)
}

// Case describes a measurement. A run sends Rows requests over Batch streams. A stream sends one
// request after another. The prompts have different random tokens, except for their first Shared
// tokens.
type Case struct {
	Mode    Mode
	Batch   int // number of requests in the engine at a time
	Rows    int // number of requests of a run; 0 for as many as Batch
	Prompt  int // number of tokens of a prompt after Context
	Gen     int // number of tokens of an answer, which stop tokens do not end; Measure sets it to 1 in mode prefill
	Context int // number of tokens before the prompt; they are computed before a run is timed
	Shared  int // number of leading tokens of Prompt that all prompts of a run share
	// Spread, if not 0, makes the lengths of prompts after Shared and of answers log-normal: it is
	// the standard deviation of their logarithms. Prompt and Gen are then the medians. No length is
	// more than maxSpread times or less than 1/maxSpread of its median. All runs have the same
	// lengths.
	Spread float64

	Sampling generation.Sampling // how tokens are drawn; the zero value chooses the likeliest token

	// Requests, if not nil, replace the random requests. Rows, Prompt, Gen, Context and Shared must
	// then be 0.
	Requests []generation.Request
}

// Combine returns a case for each combination of the values, with the other settings of c.
func (c Case) Combine(contexts, prompts, gens, batches []int) []Case {
	var cases []Case
	for _, c.Context = range contexts {
		for _, c.Prompt = range prompts {
			for _, c.Gen = range gens {
				for _, c.Batch = range batches {
					cases = append(cases, c)
				}
			}
		}
	}
	return cases
}

// maxSeed is larger than the seed of any run and the index of any request. It is one of the two
// seeds of contexts and of shared tokens, so that these differ from all other tokens.
const maxSeed = 1 << 32

func (c *Case) check() error {
	switch {
	case c.Batch < 1:
		return fmt.Errorf("the batch is %d requests, but must be at least 1 (--batch)", c.Batch)
	case c.Requests != nil:
		return nil
	case c.Prompt < 1:
		return fmt.Errorf("the prompt has %d tokens, but must have at least 1 (--prompt)", c.Prompt)
	case c.Mode == Decode && c.Gen < 2:
		return fmt.Errorf("the answer has %d tokens, but must have at least 2 (--gen), because decoding begins after the first token", c.Gen)
	case c.Gen < 1:
		return fmt.Errorf("the answer has %d tokens, but must have at least 1 (--gen)", c.Gen)
	case c.Context < 0 || c.Rows < 0:
		return fmt.Errorf("--context is %d and --rows is %d, but neither can be negative", c.Context, c.Rows)
	case !(c.Spread >= 0 && c.Spread <= maxSigma): // NaN is refused too
		return fmt.Errorf("the spread of lengths is %g, but must be from 0 to %d (--spread)", c.Spread, maxSigma)
	case c.Spread > 0 && c.Mode != Full:
		return fmt.Errorf("lengths of prompts and answers can differ only with --mode full, not with %s (--spread)", c.Mode)
	case c.Shared < 0 || c.Shared > c.Prompt:
		return fmt.Errorf("--shared-prefix is %d, but must be from 0 to %d, the number of tokens of the prompt", c.Shared, c.Prompt)
	}
	return nil
}

// requests returns the requests of a run. A stream has the same context in every run. The other
// random tokens depend on run, the number of the run.
func (c *Case) requests(run uint64, vocab int) []generation.Request {
	if c.Requests != nil {
		reqs := make([]generation.Request, len(c.Requests))
		for i, r := range c.Requests {
			r.Timed, r.Sampling = true, c.sampling(i)
			reqs[i] = r
		}
		return reqs
	}
	shared := tokens(run, maxSeed, c.Shared, vocab)
	reqs := make([]generation.Request, max(c.Rows, c.Batch))
	for i := range reqs {
		prompt := c.context(i%c.Batch, vocab)
		prompt = append(prompt, shared...)
		own, gen := c.lengths(i)
		prompt = append(prompt, tokens(run, uint64(i), own, vocab)...)
		reqs[i] = generation.Request{Tokens: prompt, MaxTokens: gen, IgnoreEOS: true, Timed: true, Sampling: c.sampling(i)}
	}
	return reqs
}

func (c *Case) sampling(request int) generation.Sampling {
	s := c.Sampling
	s.Seed = uint64(request)
	return s
}

// maxSpread and maxSigma limit Spread; see there.
const maxSpread, maxSigma = 8, 3

// lengths returns the number of tokens of a request's prompt after the shared ones, and of its
// answer.
func (c *Case) lengths(request int) (own, gen int) {
	own, gen = c.Prompt-c.Shared, c.Gen
	if c.Spread == 0 {
		return own, gen
	}
	r := rand.New(rand.NewPCG(maxSeed+1, uint64(request)))
	length := func(median int) int {
		factor := math.Exp(c.Spread * r.NormFloat64())
		return int(math.Ceil(float64(median) * min(max(factor, 1.0/maxSpread), maxSpread)))
	}
	return length(own), length(gen)
}

// MaxTokens returns the maximum number of tokens of a request, its context included.
func (c *Case) MaxTokens() int {
	if c.Spread > 0 {
		return c.Context + maxSpread*(c.Prompt+c.Gen)
	}
	return c.Context + c.Prompt + c.Gen
}

func (c *Case) context(stream, vocab int) []int32 {
	return tokens(maxSeed, uint64(stream), c.Context, vocab)
}

// tokens returns n random ids, determined by two seeds.
func tokens(a, b uint64, n, vocab int) []int32 {
	r := rand.New(rand.NewPCG(a, b))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(int32(vocab))
	}
	return ids
}
