package trained

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
)

// Result has Ingot's log-probabilities of a chunk, as Chunk has the reference's.
type Result struct {
	Logprobs []float64
	Best     []int32
}

// Difference sums up how results differ from the reference. d is the log-probability of the next
// token of the text, minus the reference's.
type Difference struct {
	Positions int
	sum, abs  float64
	Max       float64 // largest |d|
	same      int
}

// Add adds the positions of a chunk.
func (f *Difference) Add(c *Chunk, r *Result) {
	for i, want := range c.Logprobs {
		d := r.Logprobs[i] - want
		f.Positions++
		f.sum += d
		f.abs += math.Abs(d)
		f.Max = max(f.Max, math.Abs(d))
		if r.Best[i] == c.Best[i] {
			f.same++
		}
	}
}

// Mean is the mean of |d| in nats.
func (f *Difference) Mean() float64 { return f.abs / float64(f.Positions) }

// LogPPL is the difference of the logarithms of the perplexities: |mean of d|, with the sign of the
// change of the perplexity.
func (f *Difference) LogPPL() float64 { return -f.sum / float64(f.Positions) }

// Same is the share of positions whose most probable token is the reference's.
func (f *Difference) Same() float64 { return float64(f.same) / float64(f.Positions) }

// Print writes the difference over all chunks, by length and by kind, as a table.
func Print(w io.Writer, chunks []Chunk, results []Result) error {
	all, lengths, kinds := Difference{}, map[int]*Difference{}, map[string]*Difference{}
	for i := range chunks {
		c := &chunks[i]
		for _, f := range []*Difference{&all, of(lengths, len(c.IDs)), of(kinds, c.Kind)} {
			f.Add(c, &results[i])
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "chunks\tpositions\tmean |d|\tmax |d|\tfirst choice equal\tln PPL\t") //nolint:errcheck // Flush reports errors
	line := func(name string, f *Difference) {
		//nolint:errcheck // Flush reports errors
		fmt.Fprintf(t, "%s\t%d\t%.5f\t%.3f\t%.2f %%\t%+.5f\t\n", name, f.Positions, f.Mean(), f.Max, 100*f.Same(), f.LogPPL())
	}
	line("all", &all)
	for _, n := range slices.Sorted(maps.Keys(lengths)) {
		line(fmt.Sprintf("of %d", n), lengths[n])
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		line(kind, kinds[kind])
	}
	return t.Flush()
}

func of[K cmp.Ordered](all map[K]*Difference, key K) *Difference {
	if all[key] == nil {
		all[key] = &Difference{}
	}
	return all[key]
}
