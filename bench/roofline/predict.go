package roofline

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/engine/gguf"
)

// MaxBatch is the maximum number of streams of a prediction. The time of larger steps depends on arithmetic, which is not modelled.
const MaxBatch = 8

// DispatchTime is the overhead of a dispatch on the GPU. It is a published value, which others measured on an M1 Pro.
const DispatchTime = 3800 * time.Nanosecond

// Prediction is a range for the speed of decoding on a chip. It is not a measurement.
type Prediction struct {
	Chip      string  `json:"chip"`
	Bandwidth float64 `json:"bandwidth"` // bytes per second
	Batch     int     `json:"batch"`     // streams with one row each
	Context   int     `json:"context"`   // number of positions before each row

	BytesPerStep  float64 `json:"bytes_per_step"`
	Dispatches    int     `json:"dispatches"`
	ReadingMs     float64 `json:"reading_ms"`     // milliseconds per step: bytes divided by bandwidth
	DispatchingMs float64 `json:"dispatching_ms"` // milliseconds per step: dispatches times DispatchTime

	LimitTokensPerS    float64 `json:"limit_tokens_per_s"`    // speed at the full bandwidth
	ExpectedTokensPerS float64 `json:"expected_tokens_per_s"` // speed at the shares of the bandwidth that kernels reached on MeasuredOn
}

// Predict predicts a step of batch streams after context positions at each of the chip's bandwidths:
//
//	seconds per step = bytes / bandwidth + dispatches * DispatchTime
//
// A dispatch waits for the one before it, so the overheads add up. For the limit, all bytes are read at the specified bandwidth. For the
// expected speed, the bytes of each part of the step are divided by the share of the bandwidth that the part's kernels reached on another
// GPU; see MeasuredOn. That GPU has 3 to 50 times the bandwidth of Apple's GPUs. Kernels that reach only a small share there should reach a
// larger share of a lower bandwidth.
func Predict(f *gguf.File, kv gguf.Type, chip Chip, batch, context int) ([]Prediction, error) {
	if batch < 1 || batch > MaxBatch {
		return nil, fmt.Errorf("predict a step of %d streams: the number must be from 1 to %d", batch, MaxBatch)
	}
	traffic, err := bench.NewTraffic(f, kv, bench.StepTokens(batch))
	if err != nil {
		return nil, err
	}
	dispatches, err := Dispatches(f, kv, batch, context)
	if err != nil {
		return nil, err
	}
	parts := traffic.Decode(float64(batch), 1, float64(context+1))
	bytes, slowed := parts.Sum(), atMeasuredShares(parts, batch)
	list := make([]Prediction, len(chip.Bandwidths))
	for i, gigabytes := range chip.Bandwidths {
		bandwidth := gigabytes * 1e9
		reading, dispatching := bytes/bandwidth, float64(dispatches)*DispatchTime.Seconds()
		list[i] = Prediction{
			Chip: chip.Name, Bandwidth: bandwidth, Batch: batch, Context: context, BytesPerStep: bytes, Dispatches: dispatches,
			ReadingMs: 1e3 * reading, DispatchingMs: 1e3 * dispatching,
			LimitTokensPerS:    float64(batch) / (reading + dispatching),
			ExpectedTokensPerS: float64(batch) / (slowed/bandwidth + dispatching),
		}
	}
	return list, nil
}

// WriteTable writes predictions as a table, with a note that they are not measurements.
func WriteTable(w io.Writer, list []Prediction) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "chip\tGB/s\tbatch\tcontext\tMB/step\tdispatches\treading ms\tdispatching ms\texpected tok/s\tlimit tok/s\t") //nolint:errcheck // Flush reports it
	for _, p := range list {
		fmt.Fprintf(t, "%s\t%.0f\t%d\t%d\t%.1f\t%d\t%.3f\t%.3f\t%.1f\t%.1f\t\n", //nolint:errcheck // Flush reports it
			p.Chip, p.Bandwidth/1e9, p.Batch, p.Context, p.BytesPerStep/1e6, p.Dispatches, p.ReadingMs, p.DispatchingMs, p.ExpectedTokensPerS, p.LimitTokensPerS)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "A prediction, not a measurement: nothing was run. Limit: bytes over bandwidth, and %v per dispatch.\n"+
		"Expected: the same with the shares of the bandwidth that Ingot's kernels reached on an %s.\n", DispatchTime, MeasuredOn())
	return err
}
