package rows

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ingot-run/ingot/openai"
)

// Result is what an output knows of one of its results.
type Result struct {
	Line   int    // line of the row in the input
	Sum    string // the row's checksum, as in Row
	Record string // checksum of the record from which the row was made, as in Row
	Failed bool   // the result is an error
	Model  Model  // that gave the answer; zero for an error

	// TooShort is the context for which the row's prompt was too long; 0 for another result, and
	// for one of an earlier version.
	TooShort int
}

// storedLine has the fields of a result that an output needs.
type storedLine struct {
	ID        string        `json:"id"`
	RecordSum string        `json:"record_sum"`
	Error     *openai.Error `json:"error"`
	Stats     struct {
		ModelSHA256 string `json:"model_sha256"`
		Arithmetic  string `json:"arithmetic"`
		Sampling    string `json:"default_sampling"`
		Context     int    `json:"context"`
		ContextFull bool   `json:"context_full"`
	} `json:"stats"`
}

// model returns the Model of an answer.
func (l *storedLine) model() Model {
	m := Model{l.Stats.ModelSHA256, l.Stats.Arithmetic, l.Stats.Sampling, l.Stats.Context}
	if !l.Stats.ContextFull {
		m.Context = 0
	}
	return m
}

// tooShort returns Result.TooShort.
func (l *storedLine) tooShort() int {
	if l.Error == nil || l.Error.Code != openai.CodeContext {
		return 0
	}
	return l.Stats.Context
}

// resultIn returns the result in a line of an output.
func resultIn(text []byte) (Result, error) {
	var l storedLine
	if err := json.Unmarshal(text, &l); err != nil {
		return Result{}, err
	}
	_, line, sum, err := openai.ParseResultID(l.ID)
	r := Result{Line: line, Sum: fmt.Sprintf("%08x", sum), Record: l.RecordSum, Failed: l.Error != nil, TooShort: l.tooShort()}
	if !r.Failed {
		r.Model = l.model()
	}
	return r, err
}

// Drop removes the results for which drop returns true, so that their rows are answered anew. It
// replaces the file atomically by a copy without them. An output that is not a regular file has no
// results to drop. Drop must be called before the first Write.
func (o *Output) Drop(drop func(Result) bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.regular || o.results == 0 {
		return nil
	}
	err := o.rewrite(func(text []byte) bool {
		r, err := resultIn(text)
		return err == nil && drop(r)
	})
	if err == nil {
		o.forget()
		_, err = o.file.Seek(0, io.SeekStart)
	}
	if err == nil {
		o.size, err = o.scan()
	}
	if err != nil {
		return fmt.Errorf("remove results of rows that are answered anew: %w", err)
	}
	return nil
}

// forget makes the output one without results.
func (o *Output) forget() {
	o.lines, o.results, o.pending, o.kept, o.failed, o.empty = lineSet{}, 0, counts{}, 0, 0, 0
	o.errors, o.codes, o.models, o.shortest = map[uint64]errorLine{}, map[string]*Failures{}, map[Model]int{}, 0
}

// Record returns the checksum of the record from which the row of a line was made, or of the row
// itself if it was not made from one. It reads the file from its start, and returns an empty string
// if the file has no result of this line.
func (o *Output) Record(line int) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.regular {
		return "", nil
	}
	in := bufio.NewReaderSize(io.NewSectionReader(o.file, 0, o.size), fileBuffer)
	for text := []byte(nil); ; {
		var err error
		text, _, err = ReadResult(in, text[:0])
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if r, err := resultIn(text); err == nil && r.Line == line {
			if r.Record != "" {
				return r.Record, nil
			}
			return r.Sum, nil
		}
	}
}
