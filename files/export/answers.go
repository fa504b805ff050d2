// Package export makes tables from files of answers, which runs and batches write. Each answer gets
// the columns of its row.
package export

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/openai"
)

// Answers is an opened file of answers with an index by row. The index needs at most 24 bytes of
// memory per answer.
type Answers struct {
	// Model is the value of the column model. If Model is empty, the column has the model that each
	// answer names.
	Model string

	path      string
	file      *os.File
	entries   []entry // sorted by row
	sorted    bool    // the lines of the file are sorted by row
	reasoning bool    // at least one answer has reasoning
	toolCalls bool    // at least one answer has tool calls
	samples   bool    // at least one row has several answers
	next      int     // index of the next entry in a pass over the rows
	selected  bool    // the pass leaves out rows; answers to these rows are skipped
	buf       []byte
}

type entry struct {
	offset int64
	row    int32
	size   int32 // size of the line in bytes, including its line end
}

// OpenAnswers opens a file of answers and indexes its lines. It ignores an incomplete last line,
// since a run may be writing it. The caller closes the Answers.
func OpenAnswers(path string) (*Answers, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	a := &Answers{path: path, file: f}
	if err := a.scan(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	a.sorted = slices.IsSortedFunc(a.entries, byRow)
	slices.SortFunc(a.entries, byRow)
	for i := 1; i < len(a.entries); i++ {
		if a.entries[i-1].row == a.entries[i].row {
			return nil, errors.Join(fmt.Errorf("%s has two answers to row %d: remove one of them", path, a.entries[i].row), f.Close())
		}
	}
	return a, nil
}

func byRow(a, b entry) int { return cmp.Compare(a.row, b.row) }

// Close closes the file.
func (a *Answers) Close() error { return a.file.Close() }

// Len returns the number of answers.
func (a *Answers) Len() int { return len(a.entries) }

func (a *Answers) scan() error {
	lines := bufio.NewReaderSize(a.file, bufferSize)
	var text []byte
	offset := int64(0)
	for n := 1; ; n++ {
		var size int64
		var err error
		text, size, err = rows.ReadResult(lines, text[:0])
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", a.path, err)
		case size > openai.MaxOutputLine || len(bytes.TrimSpace(text)) > 0 && a.add(text, offset) != nil:
			return fmt.Errorf("%s:%d: the line is not a result of ingot: give a file that ingot run or ingot results wrote", a.path, n)
		}
		offset += size
	}
}

func (a *Answers) add(text []byte, offset int64) error {
	l, err := parseLine(text)
	if err != nil {
		return err
	}
	_, row, _, err := openai.ParseResultID(l.ID)
	if err != nil {
		return err
	}
	if l.Response != nil {
		choices := l.Response.Body.Choices
		a.samples = a.samples || len(choices) > 1
		for _, c := range choices {
			a.reasoning = a.reasoning || len(c.Message.Reasoning) > 0
			a.toolCalls = a.toolCalls || len(c.Message.ToolCalls) > 0
		}
	}
	a.entries = append(a.entries, entry{offset: offset, row: int32(row), size: int32(len(text))}) //nolint:gosec // ParseResultID checks row
	return nil
}

// text returns the line of an entry. The line is valid until the next call.
func (a *Answers) text(e entry) ([]byte, error) {
	a.buf = slices.Grow(a.buf[:0], int(e.size))[:e.size]
	if _, err := a.file.ReadAt(a.buf, e.offset); err != nil {
		return nil, fmt.Errorf("read %s: %w", a.path, err)
	}
	return a.buf, nil
}

// of returns the entry of a row. It must be called with the rows of the input in ascending order.
// If there is an answer to a row between the rows of two calls, the input has no such row. of then
// returns an error or, if a.selected is set, skips the answer.
func (a *Answers) of(row int) (e entry, found bool, err error) {
	for a.selected && a.next < len(a.entries) && int(a.entries[a.next].row) < row {
		a.next++
	}
	if a.next == len(a.entries) || int(a.entries[a.next].row) > row {
		return entry{}, false, nil
	}
	e = a.entries[a.next]
	if int(e.row) < row {
		return entry{}, false, a.errNoRow(e)
	}
	a.next++
	return e, true, nil
}

// end returns an error if there are answers to rows after the last row of the input, unless
// a.selected is set.
func (a *Answers) end() error {
	if a.next < len(a.entries) && !a.selected {
		return a.errNoRow(a.entries[a.next])
	}
	return nil
}

func (a *Answers) errNoRow(e entry) error {
	return fmt.Errorf("%s was %w: the input has no row %d", a.path, rows.ErrOtherFile, e.row)
}

// check returns rows.ErrOtherFile unless a line is the result of a record.
func (a *Answers) check(l *line, r table.Record) error {
	if id := nameOf(r); id != "" && id != l.CustomID && !strings.HasPrefix(l.CustomID, madeUpID) {
		return fmt.Errorf("%s was %w: row %d has the id %.100q in the answers, but %.100q in the input", a.path, rows.ErrOtherFile, r.Number, l.CustomID, id)
	}
	var same bool
	switch {
	case r.Request != "":
		same = strings.HasSuffix(l.ID, "-"+r.Request)
	case l.RecordSum != "":
		same = l.RecordSum == r.Sum()
	case r.Line != nil:
		same = strings.HasSuffix(l.ID, "-"+rows.Checksum(r.Line[:min(len(r.Line), rows.MaxLine)]))
	default:
		return fmt.Errorf("the answer to row %d in %s has no checksum of its record, since an older version of ingot wrote it: "+
			"run ingot run or ingot enqueue again, or make the table without the input", r.Number, a.path)
	}
	if !same {
		return fmt.Errorf("%s was %w: row %d of the input is not the row that was answered; give the unchanged input", a.path, rows.ErrOtherFile, r.Number)
	}
	return nil
}

type line struct {
	ID        string `json:"id"`
	CustomID  string `json:"custom_id"`
	RecordSum string `json:"record_sum"`
	Response  *struct {
		Body struct {
			Model   string `json:"model"`
			Choices []struct {
				Text    json.RawMessage `json:"text"`
				Message struct {
					Content   json.RawMessage `json:"content"`
					Reasoning json.RawMessage `json:"reasoning_content"`
					ToolCalls json.RawMessage `json:"tool_calls"`
				} `json:"message"`
				FinishReason string `json:"finish_reason"`
			} `json:"choices"`
			Usage struct {
				PromptTokens     int `json:"prompt_tokens"`
				CompletionTokens int `json:"completion_tokens"`
			} `json:"usage"`
		} `json:"body"`
	} `json:"response"`
	Error *openai.Error `json:"error"`
	Stats struct {
		ChoiceTokens     []int   `json:"choice_tokens"`
		PromptTokens     int     `json:"prompt_tokens"`
		CompletionTokens int     `json:"completion_tokens"`
		TTFTMS           float64 `json:"ttft_ms"`
		TotalMS          float64 `json:"total_ms"`
		PrefillTPS       float64 `json:"prefill_tps"`
		DecodeTPS        float64 `json:"decode_tps"`
		BatchMean        float64 `json:"batch_mean"`
	} `json:"stats"`
}

func parseLine(text []byte) (line, error) {
	var l line
	err := json.Unmarshal(text, &l)
	if err == nil && (l.Response == nil) == (l.Error == nil) {
		err = errors.New("the line must have either an answer or an error")
	}
	return l, err
}
