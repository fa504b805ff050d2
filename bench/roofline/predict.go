package roofline

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/gguf"
)

const (
	// MaxBatch is the maximum number of streams of a prediction.
	MaxBatch = engine.DefaultStepTokens
	// PromptRows is the number of rows of a step that computes a prompt.
	PromptRows = engine.DefaultStepTokens
	// DispatchTime is the time on the GPU for launching a dispatch. It is a published value, which
	// others measured on an M1 Pro.
	DispatchTime = 3800 * time.Nanosecond
)

// maxUnmeasured is the maximum value of UnmeasuredMs / ExpectedMs for which a prediction has an
// expected speed.
const maxUnmeasured = 0.1

// Prediction has the expected speed of a model on a chip, and the limit that the speed cannot
// exceed. It is not a measurement.
type Prediction struct {
	Model     string  `json:"model"`
	Chip      string  `json:"chip"`
	Bandwidth float64 `json:"bandwidth"` // bytes per second
	FLOPS     float64 `json:"flops"`     // float32 operations per second
	Mode      string  `json:"mode"`      // "decode" or "prefill"
	Batch     int     `json:"batch"`     // number of streams, with one row each or with a prompt
	Prompt    int     `json:"prompt"`    // number of tokens of a prompt; 0 when decoding
	Context   int     `json:"context"`   // number of positions before the row or the prompt

	Steps         int     `json:"steps"` // number of steps: 1 when decoding; the following fields are means over the steps
	BytesPerStep  float64 `json:"bytes_per_step"`
	Dispatches    int     `json:"dispatches"`
	DispatchingMs float64 `json:"dispatching_ms"` // dispatches times DispatchTime; part of both times below
	LimitMs       float64 `json:"limit_ms"`       // time at the chip's full bandwidth and arithmetic
	ExpectedMs    float64 `json:"expected_ms"`    // time computed from the measurements on MeasuredOn
	UnmeasuredMs  float64 `json:"unmeasured_ms"`  // part of ExpectedMs for kernels that were not measured, or only at other numbers of rows

	LimitTokensPerS float64 `json:"limit_tokens_per_s"`
	// ExpectedTokensPerS is 0 if UnmeasuredMs is more than maxUnmeasured times ExpectedMs, because
	// the prediction would not be reliable.
	ExpectedTokensPerS float64 `json:"expected_tokens_per_s"`

	MeasuredOn string `json:"measured_on"` // the device that was measured
	Gaps       Gaps   `json:"gaps"`
}

// Workload describes the computation to predict. If Prompt is 0, it is a decoding step of Streams
// sequences, each after Context positions. Otherwise, it is the prefill of a prompt of Prompt
// tokens in one sequence, after Context positions.
type Workload struct {
	Streams, Context, Prompt int
}

func (w Workload) steps() (list []Step, tokens int) {
	if w.Prompt == 0 {
		return []Step{{w.Streams, 1, w.Context, true}}, w.Streams
	}
	for done := 0; done < w.Prompt; done += PromptRows {
		rows := min(PromptRows, w.Prompt-done)
		list = append(list, Step{1, rows, w.Context + done, done+rows == w.Prompt})
	}
	return list, w.Prompt
}

// PredictAll predicts the speeds of a model for several workloads. model is the name of the model
// in the predictions.
func PredictAll(f *gguf.File, model string, kv gguf.Type, chip Chip, workloads []Workload, measured *Measurements) ([]Prediction, error) {
	var list []Prediction
	for _, w := range workloads {
		some, err := Predict(f, kv, chip, w, measured)
		if err != nil {
			return nil, err
		}
		for i := range some {
			some[i].Model = model
		}
		list = append(list, some...)
	}
	return list, nil
}

// Predict predicts the speed of a model on each variant of a chip:
//
//	seconds per step = sum over its dispatches of (DispatchTime + seconds of the dispatch)
//
// The sum is over all dispatches, because each waits for the one before it. The time of a dispatch
// is Measurements.Expect for the expected speed, and Limits.Limit for the limit. The caller sets
// Prediction.Model.
func Predict(f *gguf.File, kv gguf.Type, chip Chip, w Workload, measured *Measurements) ([]Prediction, error) {
	steps, tokens := w.steps()
	list := make([]Prediction, len(chip.Variants))
	for i, v := range chip.Variants {
		l := v.Limits()
		list[i] = Prediction{
			Chip: chip.Name, Bandwidth: l.Bandwidth, FLOPS: l.FLOPS, Mode: "decode", Batch: w.Streams, Prompt: w.Prompt, Context: w.Context,
			Steps: len(steps), MeasuredOn: measured.Device,
		}
		if w.Prompt > 0 {
			list[i].Mode = "prefill"
		}
	}
	dispatches := 0
	for _, s := range steps {
		all, err := Record(f, kv, s)
		if err != nil {
			return nil, err
		}
		dispatches += len(all)
		for i, v := range chip.Variants {
			list[i].add(all, s.all(), v.Limits(), measured)
		}
	}
	for i := range list {
		p, n := &list[i], float64(len(steps))
		dispatching := 1e3 * DispatchTime.Seconds() * float64(dispatches)
		limit, expected := p.LimitMs+dispatching, p.ExpectedMs+dispatching
		p.LimitTokensPerS = 1e3 * float64(tokens) / limit
		if p.UnmeasuredMs <= maxUnmeasured*expected {
			p.ExpectedTokensPerS = 1e3 * float64(tokens) / expected
		}
		p.UnmeasuredMs /= n
		p.Dispatches = int(math.Round(float64(dispatches) / n))
		p.BytesPerStep, p.DispatchingMs, p.LimitMs, p.ExpectedMs = p.BytesPerStep/n, dispatching/n, limit/n, expected/n
	}
	return list, nil
}

// add adds the bytes and times of a step's dispatches to p, without their launches.
func (p *Prediction) add(all []Dispatch, rows int, l Limits, measured *Measurements) {
	for _, d := range all {
		p.BytesPerStep += d.Bytes
		p.LimitMs += 1e3 * l.Limit(d)
		expected, known := measured.Expect(d, rows, l, &p.Gaps)
		p.ExpectedMs += 1e3 * expected
		if !known {
			p.UnmeasuredMs += 1e3 * (expected + DispatchTime.Seconds())
		}
	}
}

// WriteTable writes predictions as a table, followed by a note that explains the columns.
func WriteTable(w io.Writer, list []Prediction) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tchip\tGB/s\tTFLOPS\tstep\tMB\tdispatches\tlaunch ms\tlimit ms\texpected ms\texpected tok/s\tlimit tok/s\t") //nolint:errcheck // Flush reports it
	for i := range list {
		p := &list[i]
		what, expected := fmt.Sprintf("%d rows after %d", p.Batch, p.Context), "-\t-"
		if p.Prompt > 0 {
			what = fmt.Sprintf("prompt of %d after %d", p.Prompt, p.Context)
		}
		if p.ExpectedTokensPerS > 0 {
			expected = fmt.Sprintf("%.2f\t%.1f", p.ExpectedMs, p.ExpectedTokensPerS)
		}
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.1f\t%s\t%.1f\t%d\t%.2f\t%.2f\t%s\t%.1f\t\n", //nolint:errcheck // Flush reports it
			p.Model, p.Chip, p.Bandwidth/1e9, p.FLOPS/1e12, what, p.BytesPerStep/1e6, p.Dispatches, p.DispatchingMs, p.LimitMs, expected, p.LimitTokensPerS)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return note(w, list)
}

func note(w io.Writer, list []Prediction) error {
	var text strings.Builder
	fmt.Fprintf(&text, "A prediction, not a measurement: nothing was run.\n"+
		"Limit: bytes over bandwidth or operations over arithmetic, and %v per dispatch.\n", DispatchTime)
	if len(list) > 0 {
		device, mac := list[0].MeasuredOn, ""
		if !strings.HasPrefix(device, "Apple") {
			mac = " No Mac was measured."
		}
		fmt.Fprintf(&text, "Expected: the same with the times and shares that Ingot's kernels reached on an %s.%s A - means that too much of the step was not measured.\n",
			device, mac)
	}
	var all Gaps
	for i := range list {
		g := &list[i].Gaps
		all.Missing, all.OtherType = append(all.Missing, g.Missing...), append(all.OtherType, g.OtherType...)
		all.OtherRows = append(all.OtherRows, g.OtherRows...)
	}
	for _, gap := range []struct {
		what  string
		names []string
	}{
		{"Without a measured share, so that the limit is used and the expected speed is too high", all.Missing},
		{"Measured with another type of weights or cache", all.OtherType},
		{"Measured with another number of rows", all.OtherRows},
	} {
		slices.Sort(gap.names)
		if names := slices.Compact(gap.names); len(names) > 0 {
			fmt.Fprintf(&text, "%s: %s.\n", gap.what, strings.Join(names, ", "))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
