package kernels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ingot-run/ingot/metal"
)

// Swept is the best geometry that a sweep found for a kernel, with its time.
type Swept struct {
	metal.Choice
	Default float64 // microseconds of the default choice
}

// Sweep finds the best geometries of a GPU's kernels for the operations of a model.
type Sweep struct {
	// Open opens a backend with all candidate geometries. Each operation has its own backend,
	// because only Close frees the memory.
	Open func() (*metal.Backend, error)
	Each func(Swept) // called with each result

	time time.Duration // minimum time for measuring a candidate
	cold int           // number of bytes that the repetitions of an operation read together; see rig
	rows []int         // numbers of rows at which tiles are compared with the kernel for few rows, in ascending order
}

// NewSweep returns a sweep that takes a few seconds per operation.
func NewSweep(open func() (*metal.Backend, error), each func(Swept)) *Sweep {
	return &Sweep{open, each, minTime, coldBytes, []int{2, 4, 8, 9, 12, 16, 24, 32, 48, 64, 128}}
}

const (
	// A candidate replaces the default choice only if it takes less than this share of the
	// default's time. Smaller differences can be noise.
	gain = 0.97
	// tileRows is the number of rows of the operations with which the sizes of tiles are compared.
	tileRows = 128
	// sweptContext is the number of positions to which a row attends when attention is measured.
	sweptContext = 2048
	never        = 1 << 20 // a minimum of rows or positions that is never reached
)

// tilesOf has, for each kernel for few rows, the kernel that computes the same for many rows, in
// tiles.
var tilesOf = map[string]string{
	metal.Product: metal.ProductTile, metal.GatedProduct: metal.GatedTile,
	metal.GatedExperts: metal.ExpertGatedTile, metal.ExpertsAdd: metal.ExpertDownTile, metal.ExpertsDown: metal.ExpertDownTile,
	metal.Attention: metal.AttentionTile,
}

// Run finds the best geometry for an operation.
func (s *Sweep) Run(ctx context.Context, o *Operation) error {
	if err := s.operation(ctx, o); err != nil {
		return fmt.Errorf("sweep %v: %w", o, err)
	}
	return nil
}

type tuner struct {
	*Sweep
	*Operation
	be   *metal.Backend
	work func(rows, context int) work
	few  metal.Geometry // the best choices for few rows found so far
	many metal.Choice   // the best choice for tiles; empty until it is found
}

func (s *Sweep) operation(ctx context.Context, o *Operation) (err error) {
	be, err := s.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	if err := be.Use(nil); err != nil {
		return err
	}
	r := &rig{be: be, random: rand.New(rand.NewPCG(1, 2)), cold: s.cold} //nolint:gosec // any values will do
	t := &tuner{Sweep: s, Operation: o, be: be, work: o.work(r, tileRows, sweptContext)}
	if r.err != nil {
		return r.err
	}
	tiles := tilesOf[o.Kernel]
	t.many = be.Choice(tiles, o.Type, o.In, o.Out, 0)
	t.many.From = never
	for _, inputs := range metal.Inputs(o.Kernel) {
		if err := t.findFew(ctx, inputs); err != nil {
			return err
		}
	}
	if tiles == "" {
		return nil
	}
	return t.findTiles(ctx)
}

// microseconds measures the operation with the choices for few rows found so far and the given
// choices.
func (t *tuner) microseconds(ctx context.Context, rows, context int, choices ...metal.Choice) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	choices = slices.DeleteFunc(choices, func(c metal.Choice) bool { return c.Kernel == "" }) // removes the choice for tiles if it is empty
	if err := t.be.Use(t.few.With(choices)); err != nil {
		return 0, err
	}
	w := t.work(rows, context)
	seconds, err := w.seconds(t.be, t.time, minRuns)
	return seconds * 1e6, err
}

// best returns the fastest candidate if it is clearly faster than the default, and otherwise the
// default. The default is measured before and after the candidates, and the shorter time counts:
// otherwise, the candidates would have the advantage of a device that is already warm.
func best(byDefault metal.Choice, candidates metal.Geometry, measure func(metal.Choice) (float64, error)) (Swept, error) {
	before, err := measure(byDefault)
	if err != nil {
		return Swept{}, err
	}
	found, fastest := byDefault, math.Inf(1)
	for _, c := range candidates {
		other := byDefault
		other.Rows, other.Simdgroups, other.Inputs = c.Rows, c.Simdgroups, c.Inputs
		us, err := measure(other)
		if err != nil {
			return Swept{}, err
		}
		if us < fastest {
			found, fastest = other, us
		}
	}
	after, err := measure(byDefault)
	if err != nil {
		return Swept{}, err
	}
	us := min(before, after)
	if fastest >= gain*us {
		found, fastest = byDefault, us
	}
	found.Microseconds = rounded(fastest)
	return Swept{found, rounded(us)}, nil
}

// rounded rounds a time to hundredths.
func rounded(us float64) float64 { return math.Round(100*us) / 100 }

// findFew finds the best geometry of the kernel for few rows that processes the given number of
// rows at once (metal.Choice.Inputs). inputs is 0 for attention.
func (t *tuner) findFew(ctx context.Context, inputs int) error {
	candidates := metal.Candidates(t.Kernel, inputs)
	if t.Kernel == metal.Attention {
		share := t.Heads.Heads / t.Heads.KVHeads
		candidates = slices.DeleteFunc(candidates, func(c metal.Choice) bool { return share%c.Rows != 0 }) // the backend would use fewer heads
	}
	found, err := best(t.be.Choice(t.Kernel, t.Type, t.In, t.Out, inputs), candidates, func(c metal.Choice) (float64, error) {
		return t.microseconds(ctx, max(inputs, 1), sweptContext, c, t.many)
	})
	if err != nil {
		return err
	}
	if t.Kernel == metal.Attention {
		if found.From, err = t.findSplit(ctx, found.Choice); err != nil {
			return err
		}
	}
	t.few = append(t.few, found.Choice)
	t.Each(found)
	return nil
}

// findSplit finds the minimum number of positions for which splitting attention is faster. It
// measures sweptContext positions, then half as many and so on, as long as splitting is faster.
func (t *tuner) findSplit(ctx context.Context, c metal.Choice) (from int, err error) {
	split, whole := c, c
	split.From, whole.From = 1, never
	from = sweptContext + 1
	for context := sweptContext; context >= 512; context /= 2 {
		a, err := t.microseconds(ctx, 1, context, whole, t.many)
		if err != nil {
			return 0, err
		}
		b, err := t.microseconds(ctx, 1, context, split, t.many)
		if err != nil {
			return 0, err
		}
		if b >= a {
			break
		}
		from = context/2 + 1
	}
	return from, nil
}

func (t *tuner) findTiles(ctx context.Context) error {
	t.many.From = 1
	found, err := best(t.many, metal.Candidates(t.many.Kernel, 0), func(c metal.Choice) (float64, error) {
		return t.microseconds(ctx, tileRows, sweptContext, c)
	})
	if err != nil {
		return err
	}
	t.many = found.Choice
	from := t.rows[len(t.rows)-1] + 1
	for _, rows := range slices.Backward(t.rows) {
		out := t.many
		out.From = never
		a, err := t.microseconds(ctx, rows, sweptContext, out)
		if err != nil {
			return err
		}
		b, err := t.microseconds(ctx, rows, sweptContext, t.many)
		if err != nil {
			return err
		}
		if b >= a {
			break
		}
		from = rows
	}
	found.From = from
	t.Each(found)
	return nil
}

// WriteSweep writes the results of a sweep as a table.
func WriteSweep(w io.Writer, list []Swept) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kernel\ttype\tin\tout\tinputs\trows\tsimdgroups\tfrom\tdefault µs\tµs\t") //nolint:errcheck // Flush reports it
	for _, s := range list {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t\n", //nolint:errcheck // Flush reports it
			s.Kernel, s.Type, s.In, s.Out, s.Inputs, s.Rows, s.Simdgroups, s.From, s.Default, s.Microseconds)
	}
	return t.Flush()
}
