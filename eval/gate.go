package eval

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ingot-run/ingot/eval/statistics"
)

// GateFile is the name of the file with the verdict of a schedule's gate on a run. It is in the run's directory.
const GateFile = "gate.json"

// GateVerdict is the verdict of a gate on a run.
type GateVerdict struct {
	Baseline string             `json:"baseline"` // name of the baseline
	Run      string             `json:"baseline_run"`
	Verdict  statistics.Verdict `json:"verdict"`
	Compared []Compared         `json:"compared"`
}

// Gate compares a run of the folder with a baseline. The error wraps ErrOtherTasks if the run and the baseline have different tasks.
// margin is the accepted loss. If it is negative, each task's Margin is used.
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

// Write writes the verdict to GateFile in the directory of the run.
func (v *GateVerdict) Write(dir string) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = replaceFile(filepath.Join(dir, GateFile), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the verdict of a run: %w", err)
	}
	return nil
}

// ReadGateVerdict reads GateFile in the directory of a run.
func ReadGateVerdict(dir string) (*GateVerdict, error) {
	text, err := os.ReadFile(filepath.Join(dir, GateFile))
	if err != nil {
		return nil, fmt.Errorf("read the verdict of a run: %w", err)
	}
	v := new(GateVerdict)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, GateFile), err)
	}
	return v, nil
}
