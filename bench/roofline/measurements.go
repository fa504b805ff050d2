package roofline

import (
	"bytes"
	_ "embed" // for measured.json
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sync"
)

// Measurements are the times of the kernels on one device.
type Measurements struct {
	Device string  `json:"device"`
	GBPerS float64 `json:"gb_per_s"` // the device's bandwidth, by its data sheet
	TFLOPS float64 `json:"tflops"`   // the device's float32 arithmetic, by its data sheet; a multiply-add counts as two

	Cores int `json:"cores"` // number of cores; each runs at least one threadgroup at a time
	// Kernels has the measurements, in any order.
	Kernels []Measurement `json:"kernels"`
}

// Measurement is the time of one kernel for one size.
type Measurement struct {
	Kernel       string  `json:"kernel"`         // as in Dispatch
	Type         string  `json:"type,omitempty"` // as in Dispatch
	Rows         int     `json:"rows"`           // number of rows of the step
	Groups       int     `json:"groups"`         // as in Dispatch
	MB           float64 `json:"mb,omitempty"`   // Dispatch.Bytes in millions; 0 if only the time is known
	Mmac         float64 `json:"mmac,omitempty"` // Dispatch.Macs in millions
	Microseconds float64 `json:"us"`             // time of a dispatch, without its launch
	// Share is the share of the device's bandwidth that the kernel reached, and Arithmetic the
	// share of its arithmetic. Both are computed from the other fields; a file contains them only
	// for its human readers.
	Share      float64 `json:"share,omitempty"`
	Arithmetic float64 `json:"arithmetic,omitempty"`
	Source     string  `json:"source"` // where the time comes from
}

//go:embed measured.json
var measuredFile []byte

// Measured returns the measurements in measured.json, which is part of the program.
var Measured = sync.OnceValue(func() Measurements {
	m, err := ReadMeasurements(bytes.NewReader(measuredFile))
	if err != nil {
		panic(fmt.Sprintf("measured.json: %v", err)) // a test reads the file, so this cannot happen
	}
	return m
})

// ReadMeasurements reads a file of measurements. It returns an error for the first measurement that
// is incomplete or inconsistent.
func ReadMeasurements(r io.Reader) (m Measurements, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("read measurements: %w", err)
	}
	switch {
	case m.Device == "":
		return m, fmt.Errorf(`read measurements: "device" is missing: name the device that was measured`)
	case m.GBPerS <= 0 || m.TFLOPS <= 0 || m.Cores <= 0:
		return m, fmt.Errorf(`read measurements of %s: "gb_per_s" is %v, "tflops" is %v and "cores" is %d, but all must be above 0: take them from its data sheet`,
			m.Device, m.GBPerS, m.TFLOPS, m.Cores)
	case len(m.Kernels) == 0:
		return m, fmt.Errorf(`read measurements of %s: "kernels" is empty: give at least one measurement`, m.Device)
	}
	for i := range m.Kernels {
		if err := m.check(&m.Kernels[i]); err != nil {
			return m, fmt.Errorf("read measurements of %s: measurement %d, kernel %q: %w", m.Device, i+1, m.Kernels[i].Kernel, err)
		}
	}
	return m, nil
}

// check computes the shares of a measurement. It returns an error if the measurement is incomplete
// or inconsistent.
func (m *Measurements) check(k *Measurement) error {
	_, known := types[k.Type]
	switch {
	case k.Kernel == "" || k.Source == "":
		return fmt.Errorf(`"kernel" or "source" is missing: give both`)
	case k.Type != "" && !known:
		return fmt.Errorf("type %q is not known: use the name of a type of weights, such as Q4_K", k.Type)
	case k.Rows < 1 || k.Groups < 1:
		return fmt.Errorf(`"rows" is %d and "groups" is %d, but both must be at least 1`, k.Rows, k.Groups)
	case k.Microseconds < 0 || k.MB < 0 || k.Mmac < 0:
		return fmt.Errorf(`"us", "mb" and "mmac" must not be negative`)
	}
	want := *k
	m.setShares(&want)
	const rounding = 0.002
	if k.Share != 0 && math.Abs(want.Share-k.Share) > rounding || k.Arithmetic != 0 && math.Abs(want.Arithmetic-k.Arithmetic) > rounding {
		return fmt.Errorf(`"share" is %v and "arithmetic" is %v, but the time and the size give %.3f and %.3f`, k.Share, k.Arithmetic, want.Share, want.Arithmetic)
	}
	*k = want
	return nil
}

// setShares computes the shares of a measurement from its size and time. A share is at most 1. A
// time of 0 means that the time was too short to be measured.
func (m *Measurements) setShares(k *Measurement) {
	share := func(used, limit float64) float64 {
		if used == 0 {
			return 0
		}
		return min(used/(k.Microseconds*1e-6*limit), 1)
	}
	k.Share, k.Arithmetic = share(k.MB*1e6, m.GBPerS*1e9), share(2*k.Mmac*1e6, m.TFLOPS*1e12)
}

// Write writes m as JSON, with one line per measurement.
func (m *Measurements) Write(w io.Writer) error {
	var text bytes.Buffer
	device, err := json.Marshal(m.Device)
	if err != nil {
		return err
	}
	fmt.Fprintf(&text, "{\"device\": %s, \"gb_per_s\": %v, \"tflops\": %v, \"cores\": %d, \"kernels\": [\n", device, m.GBPerS, m.TFLOPS, m.Cores)
	for i := range m.Kernels {
		line, err := json.Marshal(&m.Kernels[i])
		if err != nil {
			return err
		}
		text.WriteString("  ")
		text.Write(line)
		if i < len(m.Kernels)-1 {
			text.WriteByte(',')
		}
		text.WriteByte('\n')
	}
	text.WriteString("]}\n")
	_, err = text.WriteTo(w)
	return err
}
