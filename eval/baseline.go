package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// BaselinesFile is the name of the file with the pinned baselines of a folder of runs. It is in
// that folder.
const BaselinesFile = "baselines.json"

// Baseline is a run that is pinned under a name. Gates compare later runs with it until the name is
// pinned to another run.
type Baseline struct {
	Run    string    `json:"run"`
	Pinned time.Time `json:"pinned"`
	SHA256 string    `json:"sha256"` // hash of the run's results and samples
}

// ErrNoBaseline means that no run is pinned under a name.
var ErrNoBaseline = errors.New("no run is pinned under this name")

// ErrChangedBaseline means that the files of a baseline have changed since it was pinned.
var ErrChangedBaseline = errors.New("the run has changed since it was pinned: pin it again if the change was intended")

// nameForm is the pattern of names. They become parts of file names, URLs, tables, and the names of
// runs, batches and keys.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName returns an error if the name of a baseline or of a schedule's entry is not allowed.
// kind is what the name is for, such as "baseline"; the error begins with it.
func CheckName(kind, name string) error {
	if nameForm.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%s %q: a name has up to 64 letters, digits, dots, dashes and underscores, and begins with a letter or digit", kind, name)
}

// Baselines returns the pinned baselines of a folder of runs. The keys are their names.
func Baselines(folder string) (map[string]Baseline, error) {
	path := filepath.Join(folder, BaselinesFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]Baseline{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read baselines: %w", err)
	}
	all := map[string]Baseline{}
	err = json.Unmarshal(text, &all)
	if err == nil && all == nil { // the file is null
		err = errors.New("it is not a JSON object")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w (delete the file and pin the baselines again)", path, err)
	}
	return all, nil
}

// Pin pins a run under the name of a baseline. The run is in the given folder of runs. run is the
// run's name or the path of its directory. If another run is pinned under the name, Pin replaces
// it.
func Pin(folder, name, run string) (Baseline, error) {
	if err := CheckName("baseline", name); err != nil {
		return Baseline{}, err
	}
	all, err := Baselines(folder)
	if err != nil {
		return Baseline{}, err
	}
	run, err = FindRun(folder, run)
	if err != nil {
		return Baseline{}, err
	}
	b := Baseline{Run: run, Pinned: time.Now().UTC().Truncate(time.Second)}
	if b.SHA256, err = contentSum(filepath.Join(folder, run)); err != nil {
		return Baseline{}, err
	}
	all[name] = b
	return b, writeBaselines(folder, all)
}

// Unpin removes the name of a baseline. Its run stays.
func Unpin(folder, name string) error {
	all, _, err := findBaseline(folder, name)
	if err != nil {
		return err
	}
	delete(all, name)
	return writeBaselines(folder, all)
}

func writeBaselines(folder string, all map[string]Baseline) error {
	if err := writeJSON(filepath.Join(folder, BaselinesFile), all); err != nil {
		return fmt.Errorf("write baselines: %w", err)
	}
	return nil
}

// PinnedRun returns the name of a baseline's run. The error wraps ErrNoBaseline if no run is pinned
// under the name, and ErrChangedBaseline if the run's files have changed.
func PinnedRun(folder, name string) (run string, err error) {
	_, b, err := findBaseline(folder, name)
	if err != nil {
		return "", err
	}
	sum, err := contentSum(filepath.Join(folder, b.Run))
	if err != nil {
		return "", fmt.Errorf("use baseline %s: %w", name, err)
	}
	if sum != b.SHA256 {
		return "", fmt.Errorf("use baseline %s, which is run %s: %w", name, b.Run, ErrChangedBaseline)
	}
	return b.Run, nil
}

func findBaseline(folder, name string) (all map[string]Baseline, b Baseline, err error) {
	all, err = Baselines(folder)
	b, ok := all[name]
	if err != nil || ok {
		return all, b, err
	}
	known := "there are no baselines"
	if len(all) > 0 {
		known = "the baselines are " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
	}
	return all, b, fmt.Errorf("baseline %q: %w (%s; \"ingot eval baseline set\" pins one)", name, ErrNoBaseline, known)
}

// contentSum returns a hash of a run's samples and of its results without their date.
func contentSum(dir string) (string, error) {
	r, err := ReadResults(dir)
	if err != nil {
		return "", err
	}
	r.Date = time.Time{}       // scoring the same answers again changes only the date
	text, _ := json.Marshal(r) // it was read from JSON
	parts := []string{string(text)}
	for _, task := range slices.Sorted(maps.Keys(r.Results)) {
		sum, err := fileSum(filepath.Join(dir, SamplesFile(task)))
		if err != nil {
			return "", err
		}
		parts = append(parts, sum)
	}
	return sum(parts...), nil
}
