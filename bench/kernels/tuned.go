package kernels

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/ingot-run/ingot/metal"
)

// TuningKey is everything on which the result of a tuning depends.
type TuningKey struct {
	Driver  string `json:"driver"`  // see metal.Info
	Device  string `json:"device"`  // such as "Apple M4 Max"
	System  string `json:"system"`  // operating system with its version
	Kernels string `json:"kernels"` // metal.KernelVersion
}

// TuningResult is the result of a tuning: the choices, and the speeds that the kernels reached.
type TuningResult struct {
	TuningKey
	Version  string  `json:"version"` // of the program
	Seconds  float64 `json:"seconds"` // that the tuning took
	Complete bool    `json:"complete"`
	GBPerS   float64 `json:"gb_per_s,omitempty"` // limits of the device; 0 if they are not known
	GFLOPS   float64 `json:"gflops,omitempty"`
	Measured []Tuned `json:"measured"`
}

// Geometry returns the choices that differ from the default.
func (r *TuningResult) Geometry() (g metal.Geometry) {
	for i := range r.Measured {
		if r.Measured[i].Changed {
			g = append(g, r.Measured[i].Choice)
		}
	}
	return g
}

// maxTuningFile is the maximum number of bytes of a result's file, which has a few kilobytes.
const maxTuningFile = 1 << 20

// ReadTuning reads a file that Write has written. The error wraps fs.ErrNotExist if there is none,
// and says what is wrong with a file that has been damaged or has another key.
func ReadTuning(path string, key TuningKey) (*TuningResult, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the tuning of the GPU: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	text, err := io.ReadAll(io.LimitReader(f, maxTuningFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the tuning of the GPU: %w", err)
	}
	r := &TuningResult{}
	if err := r.parse(text, key); err != nil {
		return nil, fmt.Errorf("read the tuning of the GPU: %s: %w", path, err)
	}
	return r, nil
}

func (r *TuningResult) parse(text []byte, key TuningKey) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more data after the result")
	}
	if r.TuningKey != key {
		return fmt.Errorf("it is of %s on %s with kernels %s, not of %s on %s with kernels %s",
			r.Device, r.System, r.Kernels, key.Device, key.System, key.Kernels)
	}
	return r.Geometry().Check()
}

// Write writes the result to a file atomically. It makes the file's folder if necessary.
func (r *TuningResult) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = writeAtomically(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("store the tuning of the GPU: %w", err)
	}
	return nil
}

func writeAtomically(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// WriteReport writes the result as a table.
func (r *TuningResult) WriteReport(w io.Writer) error {
	fmt.Fprintf(w, "%s (%s), %s, ingot %s, kernels %s\n", r.Device, r.Driver, r.System, r.Version, r.Kernels) //nolint:errcheck // Flush reports it
	limits := "The limits of this device are not known."
	if r.GBPerS > 0 {
		limits = fmt.Sprintf("Limits of the device: %.0f GB/s", r.GBPerS)
		if r.GFLOPS > 0 {
			limits += fmt.Sprintf(", %.1f TFLOPS", r.GFLOPS/1e3)
		}
		limits += "."
	}
	if !r.Complete {
		limits += " The time limit ended the tuning early."
	}
	fmt.Fprintf(w, "Tuned in %.1f s; %d choices differ from the default. %s\n", r.Seconds, len(r.Geometry()), limits) //nolint:errcheck // Flush reports it
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kernel\tat rows\tdefault µs\tµs\tGB/s\tGFLOP/s\tof limit\trows\tsimdgroups\tinputs\tfrom\t") //nolint:errcheck // Flush reports it
	for i := range r.Measured {
		m, share := &r.Measured[i], "-"
		if m.Share > 0 {
			share = fmt.Sprintf("%.0f %%", 100*m.Share)
		}
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.0f\t%s\t%d\t%d\t%d\t%d\t\n", //nolint:errcheck // Flush reports it
			m.Kernel, m.AtRows, m.Default, m.Microseconds, m.GBPerS, m.GFLOPS, share, m.Rows, m.Simdgroups, m.Inputs, m.From)
	}
	return t.Flush()
}
