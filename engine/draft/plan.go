package draft

// Planner chooses how many tokens to draft for each sequence of a step, so that the step yields the most tokens a second:
// from how likely drafts are right and from what steps of so many rows cost.
type Planner struct {
	Verify Cost // a step of the model, by rows
	Pass   Cost // one pass of the drafting layer or model, by sequences
	Limit  int  // most tokens a sequence, up to MaxTokens

	// What the last plan made of it, in seconds: a token's worth, and the cost of one more row.
	Token, Row float64
}

// Candidate is a sequence that may draft.
type Candidate struct {
	Chances [MaxTokens]float64 // that the draft at each depth is right, given that those before it are
	Limit   int                // most tokens
	Free    bool               // drafted without a pass, as by look-up
	Length  int                // the plan: tokens to draft
}

// Yield is the number of drafts, of so many, that are expected to be right.
func (c *Candidate) Yield(length int) float64 {
	sum, chance := 0.0, 1.0
	for d := range length {
		chance *= c.Chances[d]
		sum += chance
	}
	return sum
}

// worthwhile is how much faster a step has to be with drafts: what is measured is never exact, to follow texts with the
// drafting layer costs something too, and the last drafts of an answer go beyond its end.
const worthwhile = 1.1

// Plan sets the candidates' lengths, and returns their sum: 0 where drafting would not pay. others is the step's rows
// beside a row a candidate, such as chunks of prompts.
func (p *Planner) Plan(all []Candidate, others int) int {
	n := len(all) + others
	rows, tokens := n, float64(n)
	best, bestDepth, total := tokens/p.Verify.Seconds(n), 0, 0
	enough := best * worthwhile
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
			// A row that brings less than the step's present yield for its share of the cost is not drafted.
			if chance < best*p.rowCost(rows) {
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
		if rate := tokens / (p.Verify.Seconds(rows) + passes); rate > best {
			best, bestDepth, total = rate, depth, rows-n
		}
	}
	if best < enough {
		bestDepth, total = 0, 0
	}
	for i := range all {
		all[i].Length = min(all[i].Length, bestDepth)
	}
	p.Token, p.Row = 1/best, p.rowCost(n+total)
	return total
}

// rowCost is the seconds that one more row adds to a step, over the next few rows so that a jump between two sizes of
// product does not hide what follows it.
func (p *Planner) rowCost(rows int) float64 {
	const ahead = 4
	return (p.Verify.Seconds(rows+ahead) - p.Verify.Seconds(rows)) / ahead
}
