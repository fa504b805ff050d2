package draft

import "github.com/ingot-run/ingot/engine/cost"

// planner chooses how many tokens to draft for each sequence of a step, so that the step yields the most tokens a
// second, given the probability that drafts are right and the cost of steps by their rows.
type planner struct {
	Verify *cost.Steps // a step of the model
	Pass   cost.Curve  // one pass of the drafting layer or model, by sequences
	Limit  int         // maximum number of tokens per sequence, up to MaxTokens
	Reads  int         // positions that a row attends to, in the mean

	// The last plan's estimates, in seconds: what a token is worth, and what one more row costs.
	Token, Row float64
}

// candidate is a sequence that may draft.
type candidate struct {
	chances [MaxTokens]float64 // that the draft at each depth is right, given that those before it are
	Limit   int                // maximum number of tokens
	Free    bool               // drafted without a pass, as from n-grams
	Length  int                // tokens to draft, set by Plan
}

// Yield is the expected number of right drafts among the given number of them.
func (c *candidate) Yield(length int) float64 {
	sum, chance := 0.0, 1.0
	for d := range length {
		chance *= c.chances[d]
		sum += chance
	}
	return sum
}

// minGain is how much faster tokens have to come with drafts: measurements are inexact, catching up costs the drafting layer
// passes too, and the last drafts of an answer go beyond its end.
const minGain = 1.1

// Plan sets the candidates' lengths, and returns their sum, which is 0 if drafting would not pay. others is the number of the
// step's rows in addition to one a candidate, such as chunks of prompts.
func (p *planner) Plan(all []candidate, others int) int {
	n := len(all) + others
	rows, tokens := n, float64(n)
	best, bestDepth, total := tokens/p.seconds(n, others), 0, 0
	enough := best * minGain
	for i := range all {
		all[i].Length = 0
	}
	passes := 0.0
	for depth := 1; depth <= p.Limit; depth++ {
		more, passing := 0, 0
		for i := range all {
			c := &all[i]
			if c.Length != depth-1 || c.Limit < depth {
				continue
			}
			chance := c.Yield(depth) - c.Yield(depth-1)
			// A row has to bring at least what the step brings now for the same cost.
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
		if more == 0 {
			break
		}
		rows += more
		passes += p.Pass.Seconds(passing)
		if rate := tokens / (p.seconds(rows, others) + passes); rate > best {
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

// rowCost is the seconds that one more draft adds to a step: the mean over the next few, because the cost jumps between two sizes of
// product.
func (p *planner) rowCost(rows, others int) float64 {
	const next = 4
	return (p.seconds(rows+next, others) - p.seconds(rows, others)) / next
}

// seconds is what a step is expected to take; others are those of its rows that do not reach the output head.
func (p *planner) seconds(rows, others int) float64 {
	return p.Verify.Seconds(cost.Size{Rows: rows, Outputs: rows - others, Reads: rows * p.Reads})
}
