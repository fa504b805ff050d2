package schedule

import "github.com/ingot-run/ingot/engine/cost"

const (
	// maxSlowdown is how many times as long a step may take because of the prompts in it.
	maxSlowdown = 2.5
	// fullShare and fairShare are the shares of the best throughput that prompts get at least: alone, and next to sequences that
	// generate.
	fullShare, fairShare = 0.95, 0.75
	// fewestRows is the number of rows from which larger steps may be worth their time: processors are at their best with so many.
	fewestRows = 32
)

// stepLimit is how long a step with prompts may take, in seconds. It is the time of as many rows as throughput needs, so that
// requests that arrive wait for little. Next to sequences that generate, whose step without prompts has the given size, it is the time
// in which neither they nor the prompts are slowed too much.
func (q *queue) stepLimit(decoding cost.Size) float64 {
	switch {
	case q.StepTime > 0:
		return q.StepTime.Seconds()
	case decoding.Rows == 0:
		return q.rowsTime(max(q.Steps.Efficient(fullShare), fewestRows))
	}
	return max(maxSlowdown*q.Steps.Seconds(decoding), q.rowsTime(q.Steps.Efficient(fairShare)))
}

// rowsTime is the duration of a step of the first rows of a prompt.
func (q *queue) rowsTime(n int) float64 { return q.Steps.Seconds(cost.Rows(0, n, 0)) }
