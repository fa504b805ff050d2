package doctor

import (
	_ "embed"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/ingot-run/ingot/bench/kernels"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/metal/drivers"
)

//go:embed diagnosis.txt
var text string

var diagnosis = template.Must(template.New("diagnosis").Funcs(template.FuncMap{
	"bytes":    func(n reflect.Value) string { return textfmt.Bytes(uint64(n.Int())) }, //nolint:gosec // sizes are not negative
	"choices":  func(r *kernels.TuningResult) int { return len(r.Geometry()) },
	"geometry": func() string { return textfmt.Printable(config.GeometryFile()) },
	"join":     func(list []string) string { return strings.Join(list, ", ") },
	"line":     textfmt.Printable,
	"note": func(driver string) string {
		d, _ := drivers.Find(driver)
		return d.Note
	},
	"seconds": func(s float64) string {
		return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
	},
	"window": func(bytes int64, positions int) string { return textfmt.Window(uint64(bytes), positions) }, //nolint:gosec // a size is not negative
}).Parse(text))

// Write writes the diagnosis as text, followed by the report of the tuning that Examine made.
func (d *Diagnosis) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if err := errors.Join(diagnosis.Execute(t, d), t.Flush()); err != nil {
		return err
	}
	if slices.ContainsFunc(d.Backends, func(b BackendState) bool { return b.tuned }) {
		return d.WriteTuning(w)
	}
	return nil
}

// WriteTuning writes what was measured for the sizes of the chosen GPU's kernels. It writes nothing
// if they have not been tuned.
func (d *Diagnosis) WriteTuning(w io.Writer) error {
	for i := range d.Backends {
		if b := &d.Backends[i]; b.Name == d.Chosen.Backend && b.Tuning != nil {
			return b.Tuning.WriteReport(w)
		}
	}
	return nil
}
