package eval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// IndexFile is the name of the index in a folder of runs, with a line per run. The index saves
// reading all runs again. It may be deleted.
const IndexFile = "index.jsonl"

// Index holds the runs of a folder.
type Index struct {
	Runs    []Run   // by date, the oldest first
	Damaged []error // runs whose results cannot be read
}

// indexed is a line of the index. It holds a run's files as raw JSON, to preserve fields that this
// version of the program does not know.
type indexed struct {
	Name    string          `json:"run"`
	Results json.RawMessage `json:"results"`
	Gate    json.RawMessage `json:"gate,omitempty"`
	Stamps  [2]stamp        `json:"stamps"` // stamps of results.json and gate.json when they were read
}

func (l *indexed) run() (Run, error) {
	r := Run{Name: l.Name, Results: new(Results)}
	if err := json.Unmarshal(l.Results, r.Results); err != nil {
		return r, fmt.Errorf("read %s of run %s: %w", ResultsFile, l.Name, err)
	}
	if l.Gate == nil {
		return r, nil
	}
	r.Gate = new(GateVerdict)
	if err := json.Unmarshal(l.Gate, r.Gate); err != nil {
		return r, fmt.Errorf("read %s of run %s: %w", GateFile, l.Name, err)
	}
	return r, nil
}

// stamp identifies the state of a file: a file that has changed gets another stamp. The zero value
// stands for a file that does not exist.
type stamp struct {
	Size     int64 `json:"size"`
	Modified int64 `json:"modified"` // Unix time in ns
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime().UnixNano()}
}

// ReadIndex returns the finished runs in a folder: the directories that have results. It takes
// unchanged runs from the index, reads the others, and then writes the index again. This also
// repairs a damaged index.
func ReadIndex(folder string) (*Index, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read the folder of runs: %w", err)
	}
	path := filepath.Join(folder, IndexFile)
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the index of runs: %w", err)
	}
	known := map[string]indexed{}
	for line := range bytes.Lines(before) {
		var l indexed
		if json.Unmarshal(line, &l) == nil && l.Results != nil {
			known[l.Name] = l
		}
	}
	index := new(Index)
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	for _, e := range entries {
		dir := filepath.Join(folder, e.Name())
		stamps := [2]stamp{stampOf(filepath.Join(dir, ResultsFile)), stampOf(filepath.Join(dir, GateFile))}
		if stamps[0] == (stamp{}) {
			continue
		}
		l, ok := known[e.Name()]
		if !ok || l.Stamps != stamps {
			l, err = readRun(dir, e.Name(), stamps)
		}
		var r Run
		if err == nil {
			r, err = l.run()
		}
		if err != nil {
			index.Damaged = append(index.Damaged, err)
			err = nil
			continue
		}
		index.Runs = append(index.Runs, r)
		lines.Encode(l) //nolint:errcheck // its values are JSON already
	}
	slices.SortStableFunc(index.Runs, func(a, b Run) int {
		return cmp.Or(a.Results.Date.Compare(b.Results.Date), cmp.Compare(a.Name, b.Name))
	})
	if !bytes.Equal(before, text.Bytes()) {
		replaceFile(path, text.Bytes()) //nolint:errcheck // the folder may be read-only; without an index the next call reads all runs again
	}
	return index, nil
}

func readRun(dir, name string, stamps [2]stamp) (l indexed, err error) {
	l = indexed{Name: name, Stamps: stamps}
	if l.Results, err = readCompact(filepath.Join(dir, ResultsFile)); err != nil || stamps[1] == (stamp{}) {
		return l, err
	}
	l.Gate, err = readCompact(filepath.Join(dir, GateFile))
	return l, err
}

func readCompact(path string) (json.RawMessage, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a run: %w", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return line.Bytes(), nil
}
