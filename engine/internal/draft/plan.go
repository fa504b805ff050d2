package draft

import "github.com/ingot-run/ingot/engine/internal/cost"

// planner chooses how many tokens to draft for each sequence of a step, so that the step yields the
// most tokens per second. It uses the probabilities that drafts are right and the durations of
// steps and passes.
type planner struct {
	Verify *cost.Steps // durations of steps of the model, which verify the drafts
	Pass   cost.Curve  // duration of a drafting pass by its number of sequences
	Limit  int         // maximum number of drafts per sequence, up to MaxTokens
	Room   int         // maximum number of drafts of all sequences together; 0 for no maximum
	Reads  int         // mean number of positions that a row attends to
	Again  bool        // the last step had drafts
	Slow   float64     // measured duration of steps with drafts, divided by the estimate; 0 if unknown

	// Estimates of the last plan, in seconds: the time per generated token, and the time that one
	// more row adds to a step.
	Token, Row float64
}

type candidate struct {
	chances [MaxTokens]float64 // probability that the draft at each depth is right if all drafts before it are right
	Limit   int                // maximum number of drafts
	Free    bool               // drafts need no pass, because they come from n-grams
	Length  int                // number of tokens to draft, set by Plan
}

func (c *candidate) Yield(length int) float64 {
	sum, chance := 0.0, 1.0
	for d := range length {
		chance *= c.chances[d]
		sum += chance
	}
	return sum
}

// minGain is the minimum expected speedup for which tokens are drafted after a step without drafts.
// It is above 1 because measurements are inexact, because passes also cost time for sequences that
// draft nothing, and because drafts beyond the end of an answer are wasted. After a step with
// drafts, any speedup is enough: single steps without drafts are the slowest.
const minGain = 1.1

// Plan sets the lengths of the candidates and returns their sum. The sum is 0 if drafting is not
// worth its cost. others is the number of rows of the step besides one row per candidate, such as
// rows of prompts.
func (p *planner) Plan(all []candidate, others int) int {
	n := len(all) + others
	rows, tokens := n, float64(n)
	best, bestDepth, total := tokens/p.seconds(n, others), 0, 0
	enough := best
	if !p.Again {
		enough *= minGain
	}
	for i := range all {
		all[i].Length = 0
	}
	passes := 0.0
	for depth := 1; depth <= p.Limit; depth++ {
		more, passing := 0, 0
		for i := range all {
			if p.Room > 0 && rows-n+more == p.Room {
				break
			}
			c := &all[i]
			if c.Length != depth-1 || c.Limit < depth {
				continue
			}
			chance := c.Yield(depth) - c.Yield(depth-1)
			// A row must yield at least as many tokens per second as the step without the row.
			if chance < best*p.rowCost(rows, others) {
				continue
			}
			c.Length = depth
			tokens += chance
			more++
			if !c.Free {
				passing++
			}
		}
		rows += more
		passes += p.Pass.Seconds(passing)
		if rate := tokens / (p.slow()*p.seconds(rows, others) + passes); rate > best {
			best, bestDepth, total = rate, depth, rows-n
		}
	}
	if best < enough {
		bestDepth, total = 0, 0
	}
	for i := range all {
		all[i].Length = min(all[i].Length, bestDepth)
	}
	p.Token, p.Row = 1/best, p.rowCost(n+total, others)
	return total
}

func (p *planner) slow() float64 {
	if p.Slow == 0 {
		return 1
	}
	return p.Slow
}

// rowCost returns the seconds that one more draft adds to a step: a mean, because the duration
// rises in jumps.
func (p *planner) rowCost(rows, others int) float64 {
	const next = 4
	return (p.seconds(rows+next, others) - p.seconds(rows, others)) / next
}

// seconds returns the expected duration of a step. others is the number of rows that do not reach
// the output head.
func (p *planner) seconds(rows, others int) float64 {
	return p.Verify.Seconds(cost.Size{Rows: rows, Outputs: rows - others, Reads: rows * p.Reads})
}
