package cost

import (
	"fmt"
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/model"
)

const (
	// Steps of more than flatFrom rows are measured only while larger steps compute more rows per
	// second. Beyond the largest measured step, the duration is assumed to be proportional to the
	// rows.
	flatFrom = 64
	// The next larger step is measured if the last step computed at least gain times as many rows
	// per second as the step with half as many rows.
	gain = 1.05
	// A step that takes longer than slowStep is timed only once, after the run that warms it up. If
	// the warm-up takes longer than verySlow, the step is not run again, and the time of the
	// warm-up counts.
	slowStep, verySlow = 50 * time.Millisecond, 250 * time.Millisecond
	// If a step takes longer than slowest, larger steps are not measured.
	slowest = 500 * time.Millisecond
	// Steps that are not slow are timed in rounds, and the shortest time of each step counts.
	// measurements is the minimum number of rounds, not counting the warm-up. maxRounds is the
	// maximum number, counting the warm-up. Between these limits, rounds end once they have taken
	// the time in the constant enough.
	measurements, maxRounds, enough = 5, 20, 20 * time.Millisecond
	// Once the rounds have taken that time, steps of more than largeFrom rows need only
	// measurementsOfLarge rounds. They take most of the time, and a single row more or less, on
	// which drafting depends, matters only in smaller steps.
	measurementsOfLarge, largeFrom = 2, 16
	// chunk is the number of prompt rows with which the cost of attention is measured. They end at
	// position depth.
	chunk, depth = 16, 2048
)

// sizes returns the numbers of rows to measure, up to the lower of limit and flatFrom. dense has
// every number up to 16. Above 16, it has the last number of each tile of 8 rows and the first of
// the next tile, because the cost can jump between them. coarse has fewer numbers, for models whose
// steps are slow.
func sizes(limit int) (coarse, dense []int) {
	for n := 1; n <= min(limit, flatFrom); n++ {
		if n <= 16 || n%8 <= 1 {
			dense = append(dense, n)
		}
	}
	coarse = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, flatFrom}
	return slices.DeleteFunc(coarse, func(n int) bool { return n > limit }), dense
}

// Measure times steps of a model. It must run before the first request, because it writes to pages
// of the cache.
func Measure(m model.Model, limits model.Limits) (*Steps, error) {
	limit, vocab := min(limits.Rows, limits.Pages), m.Config().Vocab
	if given.Load() {
		return givenSteps(limit, limits.Outputs), nil
	}
	m = recurrent(grouped(m, limits), limits)
	rows, err := affordable(m, min(limit, limits.Outputs))
	if err != nil {
		return nil, err
	}
	last := rows[len(rows)-1]
	batches := []*compute.Batch{FirstTokens(1, vocab), FirstTokens(last, vocab)}
	for _, n := range rows {
		batches = append(batches, trunkOnly(n, vocab))
	}
	seconds, err := decode(m, batches)
	if err != nil {
		return nil, err
	}
	one, all, trunk := seconds[0], seconds[1], seconds[2:]
	for n := 2 * flatFrom; last == flatFrom && n <= limit; n *= 2 {
		before := trunk[len(trunk)-1]
		if before > slowest.Seconds() {
			break
		}
		larger, err := decode(m, []*compute.Batch{trunkOnly(n, vocab)})
		if err != nil {
			return nil, err
		}
		rows, trunk = append(rows, n), append(trunk, larger[0])
		if 2*before < gain*larger[0] {
			break
		}
	}
	s := &Steps{trunk: NewCurve(rows, trunk), measured: true}
	s.output = max(0, all-s.trunk.Seconds(last)-max(0, one-s.trunk.Seconds(1))) / float64(last)
	s.head = max(0, one-s.trunk.Seconds(1)-s.output)
	if err := s.measureReads(m, limits); err != nil {
		return nil, err
	}
	return s, nil
}

// grouped returns a model that accepts batches with one page table per sequence. If the model's
// layers have several groups, all groups use that table. They overwrite each other's keys and
// values, which does not change how long a step takes.
func grouped(m model.Model, limits model.Limits) model.Model {
	g := m.Config().Groups(limits)
	if g.Full+g.Sliding == 1 {
		return m
	}
	return &groupedModel{m, g.Full + g.Sliding - 1}
}

type groupedModel struct {
	model.Model
	further int
}

func (m *groupedModel) Decode(b *compute.Batch, n int) error {
	for i := range b.Seqs {
		if seq := &b.Seqs[i]; seq.Further == nil {
			seq.Further = slices.Repeat([][]int32{seq.Pages}, m.further)
		}
	}
	return m.Model.Decode(b, n)
}

// affordable returns the numbers of rows to measure, up to limit, after one rough measurement of
// coarse sizes. If no step is slow, these are the dense sizes. Otherwise they are the coarse sizes
// up to the first slow step, and then powers of two up to the first step that takes longer than
// slowest.
func affordable(m model.Model, limit int) ([]int, error) {
	coarse, dense := sizes(limit)
	var rows []int
	slow := false
	for _, n := range coarse {
		if slow && n&(n-1) != 0 {
			continue
		}
		start := time.Now()
		if err := m.Decode(FirstTokens(n, m.Config().Vocab), 1); err != nil {
			return nil, fmt.Errorf("measure the cost of steps: %w", err)
		}
		took := time.Since(start)
		rows = append(rows, n)
		if took > slowest {
			return rows, nil
		}
		slow = slow || took > slowStep
	}
	if slow {
		return rows, nil
	}
	return dense, nil
}

// measureReads measures attention: how much longer rows far from the beginning of a prompt take
// than rows at the beginning.
func (s *Steps) measureReads(m model.Model, limits model.Limits) error {
	end := min(depth, limits.Context, limits.Pages*limits.PageSize)
	n := min(chunk, s.trunk.rows[len(s.trunk.rows)-1], end/2)
	if n == 0 {
		return nil
	}
	from := end - n
	if m.Config().States.Layers > 0 {
		from = from / compute.ChunkRows * compute.ChunkRows
	}
	if from == 0 {
		return nil
	}
	near, far := chunkAt(0, n, limits.PageSize), chunkAt(from, n, limits.PageSize)
	seconds, err := decode(m, []*compute.Batch{near, far})
	if err != nil {
		return err
	}
	s.read = max(0, seconds[1]-seconds[0]) / float64(n*from)
	return nil
}

// decode returns the durations of steps, in seconds. As in steps that generate, the logits are not
// read from the device: on some devices, that takes longer than the step.
func decode(m model.Model, batches []*compute.Batch) ([]float64, error) {
	rows := make([]int, len(batches))
	for i, b := range batches {
		rows[i] = len(b.Tokens)
	}
	seconds, err := fastest(rows, func(i int) error { return m.Decode(batches[i], 1) })
	if err != nil {
		return nil, fmt.Errorf("measure the cost of steps: %w", err)
	}
	return seconds, nil
}

// FirstTokens returns a batch of n sequences of one token, each in its own page. The tokens are
// spread over the vocabulary, so that their routing to experts varies as in a text.
func FirstTokens(n, vocab int) *compute.Batch {
	b := &compute.Batch{Top: 1}
	for i := range int32(n) {
		b.Tokens = append(b.Tokens, int32((2*int(i)+1)*vocab/(2*n)))
		b.Positions = append(b.Positions, 0)
		b.Seqs = append(b.Seqs, compute.Seq{Rows: 1, Pages: []int32{i}})
		b.Outputs = append(b.Outputs, i)
	}
	return b
}

func trunkOnly(n, vocab int) *compute.Batch {
	b := FirstTokens(n, vocab)
	b.Outputs, b.Top = nil, 0
	return b
}

func chunkAt(position, n, pageSize int) *compute.Batch {
	b := &compute.Batch{Tokens: make([]int32, n)}
	seq := compute.Seq{Rows: n}
	for i := range n {
		b.Positions = append(b.Positions, int32(position+i))
	}
	for page := range int32((position+n-1)/pageSize + 1) {
		seq.Pages = append(seq.Pages, page)
	}
	b.Seqs = []compute.Seq{seq}
	return b
}

// MeasureCurve measures the durations of run(i), which computes rows[i] rows, in ascending order.
func MeasureCurve(rows []int, run func(i int) error) (Curve, error) {
	if given.Load() {
		return givenCurve(rows), nil
	}
	seconds, err := fastest(rows, run)
	if err != nil {
		return Curve{}, err
	}
	return NewCurve(rows, seconds), nil
}

// fastest measures run(i) for each index of rows and returns the minimum durations, in seconds.
// rows[i] is the number of rows that run(i) computes. It makes several calls for each i, of which
// it does not count the first, unless that call takes so long that it is not repeated. The calls
// for different i alternate, so that a short slowdown of the machine does not affect only one of
// them.
func fastest(rows []int, run func(i int) error) ([]float64, error) {
	minimum, begun := make([]time.Duration, len(rows)), time.Now()
	for round := 0; round <= measurements || round < maxRounds && time.Since(begun) < enough; round++ {
		long := round > measurementsOfLarge && time.Since(begun) >= enough
		for i, n := range rows {
			if round == 1 && minimum[i] > verySlow || round > 1 && minimum[i] > slowStep || long && n > largeFrom {
				continue
			}
			start := time.Now()
			if err := run(i); err != nil {
				return nil, err
			}
			took := time.Since(start)
			if round < 2 || took < minimum[i] { // the first run may read weights from a disk
				minimum[i] = took
			}
		}
	}
	seconds := make([]float64, len(rows))
	for i, took := range minimum {
		seconds[i] = took.Seconds()
	}
	return seconds, nil
}
