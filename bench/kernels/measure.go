// Package kernels measures the operations of a backend one by one, and finds the best geometry of a
// GPU's kernels for a model.
package kernels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Measurement is the speed of one operation of a backend.
type Measurement struct {
	Family  string `json:"family"`  // name of the operation, such as "product"
	Type    string `json:"type"`    // type of the weights or the cache
	Rows    int    `json:"rows"`    // for attention, the number of sequences with one row each
	Context int    `json:"context"` // number of positions of each sequence; 0 if the operation does not depend on it

	Microseconds float64 `json:"microseconds"` // median
	GBPerS       float64 `json:"gb_per_s"`     // rate of reading weights or cache; for other operations, of reading and writing activations
	GFLOPS       float64 `json:"gflops"`       // 0 if the arithmetic of the operation was not counted

	Backend string `json:"backend"`
	Threads int    `json:"threads"`
}

type work struct {
	bytes, flops float64 // number of bytes read and of floating-point operations in one repetition
	times        int     // number of repetitions in a step; each has its own memory
	batch        *compute.Batch
	step         func(compute.Step)
}

type rig struct {
	be     compute.Backend
	random *rand.Rand
	cold   int   // number of bytes that the repetitions of an operation in a step read together, so that they do not stay in caches
	err    error // the first error; nil if there is none
}

// coldBytes is the value of rig.cold except in tests. It is more than caches hold.
const coldBytes = 96 << 20

func (r *rig) repetitions(bytes int) int { return min(max((r.cold+bytes-1)/bytes, 1), 64) }

// Measure measures each operation on a separate backend. The function open starts a backend. The
// function each receives every result.
func Measure(ctx context.Context, open func() (compute.Backend, error), each func(Measurement)) error {
	for _, f := range families() {
		if err := ctx.Err(); err != nil {
			return err
		}
		m, err := f.measure(open)
		if err != nil {
			return fmt.Errorf("measure %s of %s, %d rows: %w", f.Family, f.Type, f.Rows, err)
		}
		each(m)
	}
	return nil
}

type family struct {
	Measurement
	make func(*rig, *family) work
	t    gguf.Type
}

func (f *family) measure(open func() (compute.Backend, error)) (m Measurement, err error) {
	be, err := open()
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	r := &rig{be: be, random: rand.New(rand.NewPCG(1, 2)), cold: coldBytes}
	w := f.make(r, f)
	if r.err != nil {
		return m, r.err
	}
	seconds, err := w.seconds(be, minTime, minRuns)
	m = f.Measurement
	m.Backend = be.Name()
	m.Microseconds = seconds * 1e6
	m.GBPerS, m.GFLOPS = w.bytes/seconds/1e9, w.flops/seconds/1e9
	return m, err
}

const (
	minTime = 200 * time.Millisecond // minimum duration of measuring an operation
	minRuns = 5                      // minimum number of timed runs of an operation
)

// seconds returns the median time of one repetition. The measurement takes at least minTime, and
// runs the work at least as often as the parameter runs says.
func (w *work) seconds(be compute.Backend, minTime time.Duration, runs int) (float64, error) {
	var took []float64
	for start := time.Now(); len(took) <= runs || time.Since(start) < minTime; {
		before := time.Now()
		s := be.Begin(w.batch)
		w.step(s)
		if err := s.Run(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(before).Seconds())
	}
	took = took[1:] // the first run warms up
	slices.Sort(took)
	return took[len(took)/2] / float64(w.times), nil
}

// weight makes a weight of random values.
func (r *rig) weight(t gguf.Type, dims ...int) compute.Weight {
	tensor := gguf.Tensor{Name: "random", Type: t, Shape: dims}
	rowBytes, err := t.RowBytes(dims[0])
	if r.fail(err) {
		return nil
	}
	tensor.Data = make([]byte, tensor.Elements()/dims[0]*rowBytes)
	shape.Randomize(r.random, t, tensor.Data)
	w, err := r.be.Weight(tensor)
	r.fail(err)
	return w
}

// weights makes a separate weight for each repetition of an operation. bytes is the size of one
// weight.
func (r *rig) weights(t gguf.Type, dims ...int) (list []compute.Weight, bytes int) {
	elements := 1
	for _, d := range dims {
		elements *= d
	}
	bytes, err := t.RowBytes(elements)
	if r.fail(err) {
		return nil, 0
	}
	for range r.repetitions(bytes) {
		list = append(list, r.weight(t, dims...))
	}
	return list, bytes
}

func (r *rig) buffer(rows, cols int) compute.Tensor {
	t, err := r.be.Buffer(rows, cols)
	r.fail(err)
	return t
}

// values makes a matrix of random values.
func (r *rig) values(rows, cols int) compute.Tensor {
	x, table := r.buffer(rows, cols), r.weight(gguf.TypeF32, cols, vocab)
	if r.err != nil {
		return x
	}
	s := r.be.Begin(separate(rows, nil))
	s.Embed(x, table)
	r.fail(s.Run())
	return x
}

func (r *rig) fail(err error) bool {
	if r.err == nil {
		r.err = err
	}
	return err != nil
}

// vocab is the number of rows of the embedding table from which values takes random rows.
const vocab = 64

// separate returns a batch in which each row belongs to a different sequence. If pages is not nil,
// it has the page table of each row, and the position of a row is the last one in its page table.
// Otherwise, all positions are 0.
func separate(rows int, pages [][]int32) *compute.Batch {
	b := &compute.Batch{}
	for i := range rows {
		seq := compute.Seq{Rows: 1}
		position := int32(0)
		if pages != nil {
			seq.Pages = pages[i]
			position = int32(len(pages[i])*pageSize - 1)
		}
		b.Seqs = append(b.Seqs, seq)
		b.Tokens = append(b.Tokens, int32(i%vocab))
		b.Positions = append(b.Positions, position)
	}
	return b
}

// WriteTable writes measurements as a table.
func WriteTable(w io.Writer, list []Measurement) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "family\ttype\trows\tcontext\tµs\tGB/s\tGFLOP/s\t") //nolint:errcheck // Flush reports it
	for _, m := range list {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.1f\t%.2f\t%.1f\t\n", m.Family, m.Type, m.Rows, m.Context, m.Microseconds, m.GBPerS, m.GFLOPS) //nolint:errcheck // Flush reports it
	}
	return t.Flush()
}
