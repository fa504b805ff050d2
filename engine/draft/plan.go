package draft

// Planner chooses how many tokens to draft for each sequence of a step, so that the step yields the most tokens a second:
// from how often drafts prove right and from what steps of so many rows cost.
type Planner struct {
	Acceptance Acceptance
	Verify     Cost // a step of the model, by rows
	Draft      Cost // one pass of the drafter, by sequences; zero for a drafter that costs nothing
	Limit      int  // most tokens a sequence, up to MaxTokens
}

// Plan sets lengths[i] to the tokens to draft for the sequence with records[i], none of them over limits[i], and returns
// their sum. All are 0 where drafting would not pay.
func (p *Planner) Plan(lengths []int, records []*Record, limits []int) int {
	n := len(records)
	rows, seconds, tokens := n, p.Verify.Seconds(n), float64(n)
	best, bestDepth, bestRows := tokens/seconds, 0, 0
	for i := range lengths {
		lengths[i] = 0
	}
	for depth := 1; depth <= p.Limit; depth++ {
		more, gain := 0, 0.0
		for i, r := range records {
			if lengths[i] != depth-1 || limits[i] < depth {
				continue
			}
			chance := 1.0
			for d := range depth {
				chance *= p.Acceptance.Chance(r, d)
			}
			// A row that brings less than the step's present yield for its share of the cost is not drafted.
			if chance < best*p.rowCost(rows) {
				continue
			}
			lengths[i] = depth
			gain += chance
			more++
		}
		if more == 0 {
			break
		}
		rows += more
		tokens += gain
		seconds = p.Verify.Seconds(rows) + p.chainCost(lengths, depth)
		if rate := tokens / seconds; rate > best {
			best, bestDepth, bestRows = rate, depth, rows-n
		}
	}
	for i := range lengths {
		lengths[i] = min(lengths[i], bestDepth)
	}
	return bestRows
}

// rowCost is the seconds that one more row adds to a step, over the next few rows so that a jump between two sizes of
// product does not hide what follows it.
func (p *Planner) rowCost(rows int) float64 {
	const ahead = 4
	return (p.Verify.Seconds(rows+ahead) - p.Verify.Seconds(rows)) / ahead
}

// chainCost is the seconds of drafting: one pass a depth, over the sequences that reach it.
func (p *Planner) chainCost(lengths []int, depth int) float64 {
	sum := 0.0
	for d := 1; d <= depth; d++ {
		n := 0
		for _, l := range lengths {
			if l >= d {
				n++
			}
		}
		sum += p.Draft.Seconds(n)
	}
	return sum
}
