// Package cost estimates how long steps of a model take. It measures steps before the first
// request, and later steps correct the estimates. Drafting and scheduling use the same estimates.
// The estimates influence when tokens are computed, never which tokens.
package cost

import "sort"

// Size has the quantities on which the duration of a step depends. The zero value is an empty step.
type Size struct {
	Rows    int
	Outputs int // rows that reach the output head
	Reads   int // number of positions that the rows attend to, added up over all rows
}

// Add returns the size of a step with the rows of s and of o.
func (s Size) Add(o Size) Size {
	return Size{Rows: s.Rows + o.Rows, Outputs: s.Outputs + o.Outputs, Reads: s.Reads + o.Reads}
}

// Rows returns the size of a step with the rows of one sequence at positions [from, to). outputs is
// the number of rows, counted from the last one, that reach the output head.
func Rows(from, to, outputs int) Size {
	n := to - from
	return Size{Rows: n, Outputs: outputs, Reads: n * (from + to + 1) / 2}
}

// Steps estimates the duration of a model's steps. With nil, every step takes no time.
type Steps struct {
	trunk        Curve   // durations of steps without rows that reach the output head
	head, output float64 // seconds of the output head: per step, and per row that reaches it
	read         float64 // seconds for each position that a row attends to

	measured bool // the estimates come from Measure, and Observe corrects them
}

// NewSteps returns fixed estimates, which Observe does not change. trunk is the duration of a step
// without outputs. head and output are the seconds of the output head per step and per row. read is
// the number of seconds per position that a row attends to.
func NewSteps(trunk Curve, head, output, read float64) *Steps {
	return &Steps{trunk: trunk, head: head, output: output, read: read}
}

// Seconds returns the expected duration of a step.
func (s *Steps) Seconds(z Size) float64 {
	if s == nil || z.Rows == 0 {
		return 0
	}
	return s.trunk.Seconds(z.Rows) + s.fixed(z)
}

func (s *Steps) fixed(z Size) float64 {
	seconds := s.read * float64(z.Reads)
	if z.Outputs > 0 {
		seconds += s.head + s.output*float64(z.Outputs)
	}
	return seconds
}

// Observe corrects measured estimates with the seconds that a step took.
func (s *Steps) Observe(z Size, seconds float64) {
	if s == nil || !s.measured || z.Rows == 0 {
		return
	}
	expected := s.Seconds(z)
	if expected <= 0 {
		return
	}
	ratio := limited(seconds / expected)
	s.trunk.Observe(z.Rows, ratio*s.trunk.Seconds(z.Rows))
	// attention is the share of attention in the expected duration. A step with little attention
	// hardly changes s.read.
	attention := s.read * float64(z.Reads) / expected
	s.read *= 1 + (common+(recent-common)*attention)*(ratio-1)
	s.head *= 1 + common*(ratio-1)
	s.output *= 1 + common*(ratio-1)
}

// Efficient returns the smallest measured number of prompt rows with which a step computes at least
// the given share of the highest rows per second. It returns 0 if nothing was measured.
func (s *Steps) Efficient(share float64) int {
	if s == nil {
		return 0
	}
	return s.trunk.efficient(share)
}

const (
	// streamShare is the share of the highest throughput that Streams accepts.
	streamShare = 0.95
	// minStreams is the minimum number of sequences, so that requests of several callers need not
	// wait for each other.
	minStreams = 8
)

// Streams returns the smallest number of generating sequences, a multiple of 8 up to limit, with
// which steps generate nearly the highest number of tokens per second. depth is the number of
// positions that a row attends to. With fewer sequences, each of them is faster.
func (s *Steps) Streams(limit, depth int) int {
	rate := func(n int) float64 {
		return float64(n) / s.Seconds(Size{Rows: n, Outputs: n, Reads: n * depth})
	}
	best := 0.0
	for n := min(minStreams, limit); n <= limit; n++ {
		best = max(best, rate(n))
	}
	for n := minStreams; n < limit; n += minStreams {
		if rate(n) >= streamShare*best {
			return n
		}
	}
	return limit
}

// Sizes returns the measured numbers of rows, up to flatFrom.
func (s *Steps) Sizes() []int {
	n := sort.SearchInts(s.trunk.rows, flatFrom+1)
	return s.trunk.rows[:n:n]
}
