package kernels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
)

// Tuning finds the best geometries of the kernels that take most of a step, for models of all
// shapes and types. It measures weights of Q4_K in common shapes, at 1, 4, 16 and 64 rows. A Sweep
// is more exact for one model, and takes longer.
type Tuning struct {
	// Open opens a backend with TuningCandidates. Each operation has its own backend, because only
	// Close frees the memory.
	Open   func() (*metal.Backend, error)
	Limits roofline.Limits       // of the device; a value that is not known is 0
	Each   func(done, total int) // is told how many kernels have been measured; may be nil
	Brief  bool                  // measure small operations once, for devices whose times do not count

	operations []tunedOperation // nil for all, except in tests
}

// Tuned is the best geometry that was found for a kernel, with the speed that the kernel reached at
// a number of rows.
type Tuned struct {
	metal.Choice         // applies to weights and pages of all types and shapes
	AtRows       int     `json:"at_rows"` // number of rows of the step that was measured
	Default      float64 `json:"default"` // microseconds with the default choice
	Changed      bool    `json:"changed,omitempty"`
	GBPerS       float64 `json:"gb_per_s"`
	GFLOPS       float64 `json:"gflops"`
	Share        float64 `json:"share,omitempty"` // share of the device's limit that the kernel reached; 0 if the limit is not known
}

const (
	tunedType = gguf.TypeQ4K
	mostRows  = 64 // the highest number of rows that a tuning measures
)

// TuningCandidates are the geometries that a tuning measures.
func TuningCandidates() metal.Geometry {
	all := metal.AllCandidates()
	for i := range all {
		if all[i].Kernel != metal.Attention {
			all[i].Type = tunedType.String() // so that kernels for other types have no additional instances
		}
	}
	return all
}

// tunedOperation is an operation with the kernels that compute it at some numbers of rows.
type tunedOperation struct {
	Operation
	kernels []tunedKernel
}

// tunedKernel is a kernel with a number of rows for which it is used. inputs is a value of
// Choice.Inputs; it is 0 for tiles and attention.
type tunedKernel struct {
	rows   int
	name   string
	inputs int
}

// tunedOperations returns the operations that a tuning measures. The sizes are divided by the
// parameter scale.
func tunedOperations(scale int) []tunedOperation {
	weight := func(kernel string, in, out, matrices, used int) Operation {
		return Operation{Kernel: kernel, Type: tunedType, In: max(in/scale, 256), Out: out / scale, Matrices: matrices, Used: used}
	}
	few := func(kernel, tile string) []tunedKernel {
		return []tunedKernel{{1, kernel, 1}, {4, kernel, 4}, {16, kernel, 8}, {mostRows, tile, 0}}
	}
	heads := compute.AttentionShape{Heads: 32, KVHeads: 8, KeyDim: 128, ValueDim: 128, Scale: 0.1}
	return []tunedOperation{
		{weight(metal.Product, 2048, 4096, 1, 0), few(metal.Product, metal.ProductTile)},
		{weight(metal.GatedProduct, 2048, 6144, 1, 0), few(metal.GatedProduct, metal.GatedTile)},
		{weight(metal.GatedExperts, 2048, 768, 64, 4), []tunedKernel{
			{1, metal.GatedExperts, 1}, {16, metal.GatedExperts, 2}, {mostRows, metal.GatedExperts, 4}, {mostRows, metal.ExpertGatedTile, 0},
		}},
		{weight(metal.ExpertsAdd, 768, 2048, 64, 4), []tunedKernel{
			{1, metal.ExpertsAdd, 1}, {16, metal.ExpertsDown, 2}, {mostRows, metal.ExpertsDown, 4}, {mostRows, metal.ExpertDownTile, 0},
		}},
		{
			Operation{Kernel: metal.Attention, Type: gguf.TypeF16, In: heads.KeyDim, Out: heads.ValueDim, Matrices: 1, Heads: heads},
			[]tunedKernel{{1, metal.Attention, 0}, {4, metal.Attention, 0}},
		},
	}
}

// tuningRun is the tuning of an operation.
type tuningRun struct {
	*tunedOperation
	be      *metal.Backend
	context int // positions to which attention attends
	make    func(rows, context int) work
	time    time.Duration
	runs    int
}

// Run measures all kernels. If the context's deadline passes, Run returns the results so far, and
// complete is false.
func (t *Tuning) Run(ctx context.Context) (list []Tuned, complete bool, err error) {
	scale := 1
	if t.Brief {
		scale = 32
	}
	operations, total := t.operations, 0
	if operations == nil {
		operations = tunedOperations(scale)
	}
	for i := range operations {
		total += len(operations[i].kernels)
	}
	each := func(found Tuned) {
		list = append(list, found)
		t.report(len(list), total)
	}
	t.report(0, total)
	for i := range operations {
		err := t.operation(ctx, &operations[i], sweptContext/scale, each)
		if errors.Is(err, context.DeadlineExceeded) {
			return list, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("tune %v: %w", &operations[i].Operation, err)
		}
	}
	return list, true, nil
}

func (t *Tuning) report(done, total int) {
	if t.Each != nil {
		t.Each(done, total)
	}
}

func (t *Tuning) operation(ctx context.Context, o *tunedOperation, positions int, each func(Tuned)) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	be, err := t.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	if err := be.Use(nil); err != nil {
		return err
	}
	run := &tuningRun{tunedOperation: o, be: be, context: positions, time: 15 * time.Millisecond, runs: 3}
	r := &rig{be: be, random: rand.New(rand.NewPCG(1, 2)), cold: coldBytes} //nolint:gosec // any values will do
	if t.Brief {
		run.time, run.runs, r.cold = 0, 1, 1
	}
	if run.make = o.work(r, mostRows, positions); r.err != nil {
		return r.err
	}
	for _, k := range o.kernels {
		found, err := run.tune(ctx, k)
		if err != nil {
			return err
		}
		found.rate(o, t.Limits, positions)
		each(found)
	}
	return nil
}

// tune finds the best geometry of a kernel.
func (t *tuningRun) tune(ctx context.Context, k tunedKernel) (Tuned, error) {
	if err := t.be.Use(nil); err != nil { // another geometry was measured before
		return Tuned{}, err
	}
	byDefault := t.be.Choice(k.name, t.Type, t.In, t.Out, k.inputs)
	isTile := k.inputs == 0 && k.name != metal.Attention
	measured := byDefault
	if isTile {
		measured.From, measured.Tiles = 1, 0
	}
	candidates := metal.Candidates(k.name, k.inputs)
	s, err := best(measured, candidates, func(c metal.Choice) (float64, error) { return t.microseconds(ctx, k.rows, c) })
	if err != nil {
		return Tuned{}, err
	}
	c := s.Choice
	c.From, c.Tiles = 0, 0 // those of the default
	if isTile {
		if err := t.findFrom(ctx, k, byDefault, &c, s.Microseconds); err != nil {
			return Tuned{}, err
		}
	}
	changed := c.Rows != byDefault.Rows || c.Simdgroups != byDefault.Simdgroups || c.Inputs != byDefault.Inputs || c.From != 0
	c.Type, c.In, c.Out = "", 0, 0
	return Tuned{Choice: c, AtRows: k.rows, Default: s.Default, Changed: changed}, nil
}

// findFrom sets the minimum number of rows for which tiles are used, if the default is wrong for
// the measured number of rows. us is the time of the tile c.
func (t *tuningRun) findFrom(ctx context.Context, k tunedKernel, byDefault metal.Choice, c *metal.Choice, us float64) error {
	none := byDefault
	none.From, none.Tiles = never, 0
	few, err := t.microseconds(ctx, k.rows, none)
	if err != nil {
		return err
	}
	switch {
	case us < gain*few && byDefault.From > k.rows:
		c.From, c.Tiles = k.rows, byDefault.Tiles
	case few < gain*us && byDefault.From <= k.rows:
		c.From, c.Tiles = k.rows+1, byDefault.Tiles
	}
	return nil
}

// microseconds measures the operation with a choice. If the choice is for few rows, tiles are not
// used.
func (t *tuningRun) microseconds(ctx context.Context, rows int, c metal.Choice) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	g := metal.Geometry{c}
	if tile := tilesOf[c.Kernel]; tile != "" && c.Kernel != metal.Attention {
		g = append(g, metal.Choice{Device: c.Device, Kernel: tile, Type: c.Type, In: c.In, Out: c.Out, From: never})
	}
	if err := t.be.Use(g); err != nil {
		return 0, err
	}
	w := t.make(rows, t.context)
	seconds, err := w.seconds(t.be, t.time, t.runs)
	return seconds * 1e6, err
}

// rate sets the speeds that the kernel reached. Each byte counts once. The number of experts is the
// one that the rows are expected to use if routing is even.
func (t *Tuned) rate(o *tunedOperation, l roofline.Limits, positions int) {
	rows, seconds := float64(t.AtRows), t.Microseconds/1e6
	if seconds == 0 {
		return // the clock of the device is too coarse
	}
	values, uses := float64(o.In*o.Out), rows
	bytes, _ := o.Type.RowBytes(o.In * o.Out) // the sizes are whole blocks
	read := float64(bytes)
	switch o.Kernel {
	case metal.GatedProduct:
		values, read = 2*values, 2*read
	case metal.GatedExperts, metal.ExpertsAdd:
		if o.Kernel == metal.GatedExperts {
			values, read = 2*values, 2*read
		}
		experts, used := float64(o.Matrices), float64(o.Used)
		read *= experts * (1 - math.Pow(1-used/experts, rows))
		uses *= used
	case metal.Attention:
		h := &o.Heads
		read = float64(2 * positions * h.KVHeads * (o.In + o.Out))
		values = float64(positions * h.Heads * (o.In + o.Out))
	}
	flops := 2 * values * uses
	t.GBPerS, t.GFLOPS = rounded(read/seconds/1e9), rounded(flops/seconds/1e9)
	limit := 0.0
	if l.Bandwidth > 0 {
		limit = read / l.Bandwidth
	}
	if l.FLOPS > 0 {
		limit = max(limit, flops/l.FLOPS)
	}
	t.Share = rounded(limit / seconds)
}
