package roofline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
)

// ProfileSteps has the steps that a profile measures.
var ProfileSteps = []Step{
	{1, 1, 128, true}, {1, 1, 2048, true}, {16, 1, 128, true}, {16, 1, 2048, true}, {64, 1, 128, true}, {64, 1, 2048, true},
	{1, PromptRows, 0, false}, {1, PromptRows, 3 * PromptRows, true},
}

const profileRuns = 9

// ProfileFile is Profile of a model's file, for ProfileSteps.
func ProfileFile(ctx context.Context, open func() (metal.Device, error), path string, kv gguf.Type, source string) (p Measurements, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return Profile(ctx, open, f, kv, source, ProfileSteps)
}

// Profile measures the kernels of steps of a model on a GPU. On any GPU, it runs the kernels that
// Apple's GPUs run. It calls open once per step and closes the returned device. source is stored in
// Measurement.Source. The result has no TFLOPS, cores and shares.
//
// Profile submits each dispatch alone and waits for it before the next one. Each time therefore
// includes a launch on an idle GPU. The shortest time of all dispatches is taken as the time of a
// launch, and subtracted from all times.
func Profile(ctx context.Context, open func() (metal.Device, error), f *gguf.File, kv gguf.Type, source string, steps []Step) (p Measurements, err error) {
	var list []sample
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		dev, err := open()
		if err != nil {
			return p, err
		}
		p.Device, p.GBPerS = dev.Info().Name, dev.Info().Bandwidth/1e9
		t := &timer{Device: dev}
		err = onDevice(t, f, kv, s, func(l *ledger, forward func() error) error {
			if err := forward(); err != nil { // warms up
				return err
			}
			runs := make([][]time.Duration, profileRuns)
			for i := range runs {
				t.on, t.times = true, nil
				if err := forward(); err != nil {
					return err
				}
				runs[i] = t.times
			}
			list = append(list, samples(l.step, s.all(), runs)...)
			return nil
		})
		if err != nil {
			return p, fmt.Errorf("profile a step of %d sequences with %d rows each after %d positions: %w", s.Sequences, s.Rows, s.Context, err)
		}
	}
	p.Kernels = summarize(list, source)
	return p, nil
}

// WriteProfile writes measurements as a table.
func WriteProfile(w io.Writer, p *Measurements) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kernel\ttype\trows\tMB\tMmac\tus\tGB/s\tGFLOPS\t") //nolint:errcheck // Flush reports it
	for i := range p.Kernels {
		k := &p.Kernels[i]
		rate := func(v float64) string {
			if v == 0 || k.Microseconds == 0 {
				return ""
			}
			return fmt.Sprintf("%.0f", 1e3*v/k.Microseconds)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.3f\t%.2f\t%.1f\t%s\t%s\t\n", //nolint:errcheck // Flush reports it
			k.Kernel, k.Type, k.Rows, k.MB, k.Mmac, k.Microseconds, rate(k.MB), rate(2*k.Mmac))
	}
	return t.Flush()
}

type sample struct {
	Dispatch
	rows int
	took time.Duration
}

func samples(step []Dispatch, rows int, runs [][]time.Duration) []sample {
	list := make([]sample, len(step))
	took := make([]time.Duration, len(runs))
	for i, d := range step {
		for r := range runs {
			took[r] = runs[r][i]
		}
		slices.Sort(took)
		list[i] = sample{d, rows, took[len(took)/2]}
	}
	return list
}

// summarize returns a measurement for each kernel, number of rows and size. Its time is the median
// time of the dispatches minus the shortest time of all. The measurements are in the order of the
// samples.
func summarize(list []sample, source string) (all []Measurement) {
	type size struct {
		d    Dispatch
		rows int
	}
	took := map[size][]time.Duration{}
	var order []size
	for _, s := range list {
		z := size{s.Dispatch, s.rows}
		if took[z] == nil {
			order = append(order, z)
		}
		took[z] = append(took[z], s.took)
	}
	launch := time.Duration(math.MaxInt64)
	for _, t := range took {
		slices.Sort(t)
		launch = min(launch, t[len(t)/2])
	}
	for _, z := range order {
		t := took[z]
		all = append(all, Measurement{
			Kernel: z.d.Kernel, Type: z.d.Type, Rows: z.rows, Groups: z.d.Groups, MB: rounded(z.d.Bytes/1e6, 1e3), Mmac: rounded(z.d.Macs/1e6, 1e2),
			Microseconds: rounded((t[len(t)/2]-launch).Seconds()*1e6, 1e1), Source: source,
		})
	}
	return all
}

func rounded(v, parts float64) float64 { return math.Round(v*parts) / parts }

// timer is a device that passes every call to another device. While on is set, it submits each
// dispatch alone and records how long the GPU takes for it.
type timer struct {
	metal.Device
	on     bool
	times  []time.Duration
	waited metal.Ticket
}

func (t *timer) Submit(work []metal.Dispatch) (ticket metal.Ticket, err error) {
	if !t.on {
		return t.Device.Submit(work)
	}
	for i := range work {
		if ticket, err = t.Device.Submit(work[i : i+1]); err != nil {
			return ticket, err
		}
		took, err := t.Wait(ticket)
		if err != nil {
			return ticket, err
		}
		t.times = append(t.times, took.End-took.Start)
	}
	return ticket, nil
}

func (t *timer) Wait(ticket metal.Ticket) (metal.Timing, error) {
	if ticket <= t.waited {
		return metal.Timing{}, nil
	}
	t.waited = ticket
	return t.Device.Wait(ticket)
}
