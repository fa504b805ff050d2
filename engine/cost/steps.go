// Package cost estimates how long steps of a model take. It measures them before the first request and corrects the estimates by
// the steps that follow. Drafting and scheduling decide by the same estimates. They change when tokens are computed, and never which.
package cost

// Size is what the duration of a step depends on. The zero value is an empty step.
type Size struct {
	Rows    int
	Outputs int // rows that reach the output head
	Reads   int // positions that the rows attend to, summed
}

// Add returns the size of a step with more rows.
func (s Size) Add(o Size) Size {
	return Size{Rows: s.Rows + o.Rows, Outputs: s.Outputs + o.Outputs, Reads: s.Reads + o.Reads}
}

// Rows is the size of rows of a sequence at positions from to to-1, of which the last outputs reach the output head.
func Rows(from, to, outputs int) Size {
	n := to - from
	return Size{Rows: n, Outputs: outputs, Reads: n * (from + to + 1) / 2}
}

// Steps estimates the duration of a model's steps. The zero value and nil cost nothing.
type Steps struct {
	whole Curve   // all rows reach the output head, as they do while tokens are generated
	trunk Curve   // no row does
	read  float64 // seconds for each position that a row attends to
}

// NewSteps returns the costs of steps by their rows: of whole steps, and of those that no row of reaches the output head. read is the
// seconds for each position that a row attends to.
func NewSteps(whole, trunk Curve, read float64) *Steps {
	return &Steps{whole: whole, trunk: trunk, read: read}
}

// Seconds is what a step is expected to take.
func (s *Steps) Seconds(z Size) float64 {
	if s == nil {
		return 0
	}
	return s.rows(z) + s.read*float64(z.Reads)
}

// rows is Seconds without attention.
func (s *Steps) rows(z Size) float64 {
	if z.Outputs >= z.Rows {
		return s.whole.Seconds(z.Rows)
	}
	return s.trunk.Seconds(z.Rows) + s.head(z.Outputs)
}

// head is the cost of the output head.
func (s *Steps) head(outputs int) float64 {
	return max(0, s.whole.Seconds(outputs)-s.trunk.Seconds(outputs))
}

// Observe corrects the estimates by the seconds that a step took.
func (s *Steps) Observe(z Size, seconds float64) {
	if s == nil || z.Rows == 0 {
		return
	}
	rows, attention := s.rows(z), s.read*float64(z.Reads)
	if rows <= 0 {
		return
	}
	ratio := limited(seconds / (rows + attention))
	if z.Outputs >= z.Rows {
		s.whole.Observe(z.Rows, ratio*s.whole.Seconds(z.Rows))
	} else {
		s.trunk.Observe(z.Rows, ratio*s.trunk.Seconds(z.Rows))
	}
	// Attention is blamed for its share, and little where that is small: short texts show nothing about it.
	share := attention / (rows + attention)
	s.read *= 1 + recent*share*share*(ratio-1)
}

// Efficient is the fewest rows of prompts whose rows a second are at least a share of the best; 0 if nothing was measured.
func (s *Steps) Efficient(share float64) int {
	if s == nil {
		return 0
	}
	return s.trunk.efficient(share)
}
