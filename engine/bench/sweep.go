package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Crossing is an operation at some rows, with a backend's kernels for few rows and with those for many.
type Crossing struct {
	Family string `json:"family"`
	Type   string `json:"type"`
	Rows   int    `json:"rows"`

	FewMicroseconds  float64 `json:"few_microseconds"`
	ManyMicroseconds float64 `json:"many_microseconds"`
}

// SweepRows are the numbers of rows at which a sweep compares.
var SweepRows = []int{2, 4, 6, 8, 9, 12, 16, 24, 32, 48, 64}

// Sweep measures products and experts at numbers of rows on two backends, of which one is set to take the kernels for few
// rows always, and the other those for many.
func Sweep(ctx context.Context, rows []int, few, many func() (compute.Backend, error), each func(Crossing)) error {
	sweep := func(name string, t gguf.Type, work func(*rig, *family) work) error {
		for _, n := range rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			f := family{Kernel{Family: name, Type: strings.ToLower(t.String()), Rows: n}, work, t}
			a, err := f.measure(few)
			if err != nil {
				return fmt.Errorf("measure %s of %s, %d rows, with the kernels for few: %w", name, t, n, err)
			}
			b, err := f.measure(many)
			if err != nil {
				return fmt.Errorf("measure %s of %s, %d rows, with the kernels for many: %w", name, t, n, err)
			}
			each(Crossing{name, f.Type, n, a.Microseconds, b.Microseconds})
		}
		return nil
	}
	for _, t := range []gguf.Type{gguf.TypeQ40, gguf.TypeQ80, gguf.TypeQ4K, gguf.TypeQ6K, gguf.TypeF16} {
		if err := sweep("product", t, productWork); err != nil {
			return err
		}
	}
	return sweep("experts", gguf.TypeQ40, expertsWork)
}

// WriteSweep writes a sweep for people, with the number of rows from which on the kernels for many are quicker.
func WriteSweep(w io.Writer, list []Crossing) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "family\ttype\trows\tfew µs\tmany µs\t") //nolint:errcheck // Flush reports it
	for _, c := range list {
		fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%.1f\t\n", c.Family, c.Type, c.Rows, c.FewMicroseconds, c.ManyMicroseconds) //nolint:errcheck // Flush reports it
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Family == list[0].Family && list[n].Type == list[0].Type {
			n++
		}
		text := "nowhere"
		if rows := crossing(list[:n]); rows > 0 {
			text = fmt.Sprintf("from %d rows on", rows)
		}
		if _, err := fmt.Fprintf(w, "%s of %s: the kernels for many rows are quicker %s\n", list[0].Family, list[0].Type, text); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// crossing is the least of the rows from which on the kernels for many are always quicker; 0 where they are not.
func crossing(list []Crossing) int {
	rows := 0
	for i := len(list) - 1; i >= 0 && list[i].ManyMicroseconds < list[i].FewMicroseconds; i-- {
		rows = list[i].Rows
	}
	return rows
}
