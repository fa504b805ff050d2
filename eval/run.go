package eval

import (
	"fmt"
	"os"
	"path/filepath"
)

// Run is a finished run in a folder of runs.
type Run struct {
	Name    string       `json:"run"` // name of the run's directory in the folder
	Results *Results     `json:"results"`
	Gate    *GateVerdict `json:"gate,omitempty"` // verdict of a schedule's gate; nil if no gate judged the run
}

// FindRun returns the name of a run in a folder of runs. run is that name, or the path of its
// directory.
func FindRun(folder, run string) (string, error) {
	for _, dir := range []string{filepath.Join(folder, run), filepath.Clean(run)} {
		parent, errParent := os.Stat(filepath.Dir(dir))
		within, errWithin := os.Stat(folder)
		if errParent != nil || errWithin != nil || !os.SameFile(parent, within) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, ResultsFile)); err == nil {
			return filepath.Base(dir), nil
		}
	}
	return "", fmt.Errorf("run %q: folder %s has no finished run of this name (\"ingot eval list\" shows them)", run, folder)
}
