package eval

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// GateFile is the name of the file with the verdict of a schedule's gate on a run. It is in the
// run's directory.
const GateFile = "gate.json"

// OwnMargin is the margin of a comparison that selects each task's own Margin.
const OwnMargin = -1

// GateVerdict is the verdict of a gate on a run.
type GateVerdict struct {
	Baseline string             `json:"baseline"` // name of the baseline
	Run      string             `json:"baseline_run"`
	Verdict  statistics.Verdict `json:"verdict"`
	Compared []Compared         `json:"compared"`
}

// Gate compares a run of the folder with a baseline. The error wraps ErrOtherTasks if the run and
// the baseline have different tasks. margin is the accepted loss. If it is negative, each task's
// Margin is used.
func Gate(folder, baseline, run string, margin float64) (*GateVerdict, error) {
	pinned, err := PinnedRun(folder, baseline)
	if err != nil {
		return nil, err
	}
	list, err := CompareAll(filepath.Join(folder, pinned), filepath.Join(folder, run), margin)
	if err != nil {
		return nil, err
	}
	return &GateVerdict{Baseline: baseline, Run: pinned, Verdict: Verdict(list), Compared: list}, nil
}

// String describes the verdict in one line, with the comparisons that did not pass.
func (v *GateVerdict) String() string {
	var parts []string
	for _, c := range v.Compared {
		if c.Verdict == statistics.Pass {
			continue
		}
		text := fmt.Sprintf("%s %s: %.4f after %.4f, %+.4f (90 %%: %+.4f to %+.4f)", c.Task, c.Metric, c.Candidate, c.Baseline, c.Mean, c.Low, c.High)
		if c.Failed > 0 {
			text += fmt.Sprintf(", %s without an answer", textfmt.Count(c.Failed, "row"))
		}
		parts = append(parts, text+": "+string(c.Verdict))
	}
	if len(parts) == 0 {
		return "as good as " + v.Run
	}
	return "compared with " + v.Run + ": " + strings.Join(parts, "; ")
}

// Write writes the verdict to GateFile in the directory of the run.
func (v *GateVerdict) Write(dir string) error {
	if err := writeJSON(filepath.Join(dir, GateFile), v); err != nil {
		return fmt.Errorf("write the verdict of a run: %w", err)
	}
	return nil
}
