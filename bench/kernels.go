package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Kernel is the figures of one operation of a backend.
type Kernel struct {
	Family  string `json:"family"`
	Type    string `json:"type"`    // of the weights or the cache
	Rows    int    `json:"rows"`    // of attention, sequences of one row
	Context int    `json:"context"` // positions of each sequence; 0 where it does not matter

	Microseconds float64 `json:"microseconds"` // median
	GBPerS       float64 `json:"gb_per_s"`     // of weights or cache; of values where there are neither
	GFLOPS       float64 `json:"gflops"`       // 0 where operations are not what counts

	Backend string `json:"backend"`
	Threads int    `json:"threads"`
}

// work is what an operation does once.
type work struct {
	bytes, flops float64
	times        int // how often a step does it, each time with memory of its own
	batch        *compute.Batch
	step         func(compute.Step)
}

// rig makes the memory of operations on a backend.
type rig struct {
	be     compute.Backend
	random *rand.Rand
	cold   int   // bytes that the repetitions of an operation in a step go through, so that caches do not keep it
	err    error // the first that came up
}

// coldBytes is more than caches hold.
const coldBytes = 96 << 20

// repetitions is how often an operation that reads so many bytes is done in a step.
func (r *rig) repetitions(bytes int) int { return min(max((r.cold+bytes-1)/bytes, 1), 64) }

// Kernels measures each family of operations, each on a backend of its own, and hands the figures on as they come.
func Kernels(ctx context.Context, open func() (compute.Backend, error), each func(Kernel)) error {
	for _, f := range families() {
		if err := ctx.Err(); err != nil {
			return err
		}
		k, err := f.measure(open)
		if err != nil {
			return fmt.Errorf("measure %s of %s, %d rows: %w", f.Family, f.Type, f.Rows, err)
		}
		each(k)
	}
	return nil
}

// family is an operation to measure.
type family struct {
	Kernel
	make func(*rig, *family) work
	t    gguf.Type
}

func (f *family) measure(open func() (compute.Backend, error)) (k Kernel, err error) {
	be, err := open()
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	r := &rig{be: be, random: rand.New(rand.NewPCG(1, 2)), cold: coldBytes}
	w := f.make(r, f)
	if r.err != nil {
		return k, r.err
	}
	seconds, err := w.seconds(be, kernelTime)
	k = f.Kernel
	k.Backend = be.Name()
	k.Microseconds = seconds * 1e6
	k.GBPerS, k.GFLOPS = w.bytes/seconds/1e9, w.flops/seconds/1e9
	return k, err
}

const (
	kernelTime = 200 * time.Millisecond // that an operation is measured for
	kernelRuns = 5                      // and how often at least
)

// seconds is what the operation takes once. It is measured for at least so long.
func (w *work) seconds(be compute.Backend, least time.Duration) (float64, error) {
	var took []float64
	for start := time.Now(); len(took) <= kernelRuns || time.Since(start) < least; {
		before := time.Now()
		s := be.Begin(w.batch)
		w.step(s)
		if err := s.Run(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(before).Seconds())
	}
	return median(took[1:]) / float64(w.times), nil
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

// weights makes as many of them as a step goes through, and returns the bytes of one.
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

// values makes a matrix of random values; rows of them.
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

// vocab is the rows of the table that random values come from.
const vocab = 64

// separate is a step of rows that are each a sequence of its own, the last row of a page table where there are any.
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

// WriteKernels writes figures for people.
func WriteKernels(w io.Writer, list []Kernel) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "family\ttype\trows\tcontext\tµs\tGB/s\tGFLOP/s\t") //nolint:errcheck // Flush reports it
	for _, k := range list {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.1f\t%.2f\t%.1f\t\n", k.Family, k.Type, k.Rows, k.Context, k.Microseconds, k.GBPerS, k.GFLOPS) //nolint:errcheck // Flush reports it
	}
	return t.Flush()
}
