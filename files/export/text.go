package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/ordered"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
)

// TextWriter prints answers as text for reading on a terminal.
type TextWriter struct {
	Out      io.Writer
	Limit    int  // maximum number of answers that Answers prints; 0 for all
	Selected bool // Rows and Records print only some of the rows that were answered
	Ordered  bool // Answers prints in the order of the rows; the answers must fit into memory
}

type shownAnswer struct {
	line
	row int
	sum string // checksum of the row
}

// Answers prints the answers of a file in their order, or in that of the rows if Ordered is set.
func (w *TextWriter) Answers(answers *table.Input) error {
	if w.Ordered {
		return w.ordered(answers)
	}
	n := 0
	err := readAnswers(answers, func(a shownAnswer) error {
		if n++; w.Limit > 0 && n > w.Limit {
			return errEnough
		}
		return w.write(a.CustomID, "", &a)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (w *TextWriter) ordered(answers *table.Input) error {
	byRow, err := answersByRow(answers)
	if err != nil {
		return err
	}
	for n, row := range slices.Sorted(maps.Keys(byRow)) {
		if w.Limit > 0 && n == w.Limit {
			break
		}
		a := byRow[row]
		if err := w.write(a.CustomID, "", &a); err != nil {
			return err
		}
	}
	return nil
}

var errEnough = errors.New("enough answers are printed")

// Records prints the records that open returns, with all of their columns, and their answers. The
// answers must fit into memory. The error is rows.ErrOtherFile if the answers are not those of the
// records.
func (w *TextWriter) Records(answers *table.Input, open func() (table.Reader, error)) error {
	byRow, err := answersByRow(answers)
	if err != nil {
		return err
	}
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	for {
		record, err := in.Next()
		var damaged *table.RecordError
		switch {
		case errors.Is(err, io.EOF):
			return w.checkRest(answers, byRow)
		case errors.As(err, &damaged):
			record = damaged.Record()
		case err != nil:
			return err
		}
		id, shown := rows.DefaultID(record.Number), (*shownAnswer)(nil)
		if a, ok := byRow[record.Number]; ok {
			if a.RecordSum != record.Sum() {
				return otherRow(answers, record.Number)
			}
			id, shown = a.CustomID, &a
			delete(byRow, record.Number)
		}
		if err := w.write(id, columnsText(record), shown); err != nil {
			return err
		}
	}
}

// columnsText returns the columns of a record, one on each line.
func columnsText(r table.Record) string {
	lines := make([]string, len(r.Fields))
	for i, f := range r.Fields {
		value := string(f.Value)
		var text string
		if json.Unmarshal(f.Value, &text) == nil {
			value = text
		}
		lines[i] = f.Name + ": " + value
	}
	return strings.Join(lines, "\n")
}

func answersByRow(answers *table.Input) (map[int]shownAnswer, error) {
	byRow := map[int]shownAnswer{}
	err := readAnswers(answers, func(a shownAnswer) error { byRow[a.row] = a; return nil })
	return byRow, err
}

func otherRow(answers *table.Input, line int) error {
	return fmt.Errorf("%s was %w: line %d of ROWS is not the row that was answered", answers.Name(), rows.ErrOtherFile, line)
}

// checkRest returns rows.ErrOtherFile if there are answers to rows that ROWS does not have.
func (w *TextWriter) checkRest(answers *table.Input, byRow map[int]shownAnswer) error {
	if len(byRow) == 0 || w.Selected {
		return nil
	}
	return fmt.Errorf("%s was %w: ROWS has no row on line %d", answers.Name(), rows.ErrOtherFile, slices.Min(slices.Collect(maps.Keys(byRow))))
}

// Rows prints the rows that open returns with their answers. The answers must fit into memory. The
// error is rows.ErrOtherFile if the answers are not those of the rows.
func (w *TextWriter) Rows(ctx context.Context, answers *table.Input, open func() (*rows.Reader, error)) error {
	byRow, err := answersByRow(answers)
	if err != nil {
		return err
	}
	in, err := open()
	if err != nil {
		return err
	}
	for row, err := range in.Rows(ctx) {
		if err != nil {
			return err
		}
		id, shown := row.CustomID, (*shownAnswer)(nil)
		if a, ok := byRow[row.Line]; ok {
			if !a.isOf(row) {
				return otherRow(answers, row.Line)
			}
			id, shown = a.CustomID, &a
			delete(byRow, row.Line)
		}
		if err := w.write(id, question(row), shown); err != nil {
			return err
		}
	}
	return w.checkRest(answers, byRow)
}

// isOf reports whether the answer is to a row, or to another request that was made from the record
// of the row.
func (a *shownAnswer) isOf(row rows.Row) bool {
	return a.sum == row.Sum || a.RecordSum != "" && (a.RecordSum == row.Record || row.Record == "" && a.RecordSum == row.Sum) ||
		a.RecordSum == "" && a.sum == row.Record
}

// readAnswers calls visit with each line of a file of answers. It ignores an incomplete last line,
// which a run may be writing.
func readAnswers(answers *table.Input, visit func(shownAnswer) error) error {
	in, err := answers.Content()
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	lines := bufio.NewReaderSize(in, bufferSize)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", answers.Name(), err)
		}
		if err != nil && !json.Valid(text) {
			return nil
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var a shownAnswer
		parseErr := json.Unmarshal(text, &a.line)
		if parseErr == nil {
			var sum uint32
			_, a.row, sum, parseErr = openai.ParseResultID(a.ID)
			a.sum = fmt.Sprintf("%08x", sum)
		}
		if parseErr != nil {
			return fmt.Errorf("read %s:%d: the line is not a result of ingot", answers.Name(), n)
		}
		if err := visit(a); err != nil {
			return err
		}
	}
}

// write prints a row: its question if it is given, then the answers or the error. a is nil if there
// is no answer yet.
func (w *TextWriter) write(id, question string, a *shownAnswer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s\n", textfmt.Printable(id))
	if question != "" {
		paragraph(&text, "  ? ", question)
	}
	switch {
	case a == nil:
		text.WriteString("    no answer yet\n")
	case a.Error != nil:
		paragraph(&text, "  ! ", a.Error.Code+": "+a.Error.Message)
	default:
		if a.Response != nil {
			for _, s := range samplesOf(a.line, "") {
				var answer string
				_ = json.Unmarshal(s.response, &answer) // an answer that is not a text is shown as an empty one
				paragraph(&text, "  > ", answer)
			}
		}
		s := a.Stats
		fmt.Fprintf(&text, "    %d prompt tokens at %.0f/s, %d generated at %.0f/s, first after %.0f ms, all after %.0f ms, %.1f sequences per step\n",
			s.PromptTokens, s.PrefillTPS, s.CompletionTokens, s.DecodeTPS, s.TTFTMS, s.TotalMS, s.BatchMean)
	}
	_, err := io.WriteString(w.Out, text.String())
	return err
}

// paragraph appends a text with a mark before its first line. The other lines are indented by the
// width of the mark.
func paragraph(to *strings.Builder, mark, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		to.WriteString(mark + textfmt.Printable(strings.TrimSuffix(line, "\r")) + "\n")
		mark = strings.Repeat(" ", len(mark))
	}
}

// question returns the last message of a row's chat, or the prompts of its completion. It is empty
// if the row cannot be used.
func question(row rows.Row) string {
	r, err := openai.ParseRequest(row.Endpoint, row.Body)
	if row.Err != nil || err != nil {
		return ""
	}
	var prompts []string
	for i := range r.NumPrompts() {
		g := r.Generation(i, 0, time.Time{})
		switch {
		case g.Chat != nil:
			prompts = append(prompts, lastMessage(g.Chat))
		case g.Tokens != nil:
			prompts = append(prompts, fmt.Sprintf("%d token ids", len(g.Tokens)))
		default:
			prompts = append(prompts, g.Text)
		}
	}
	return strings.Join(prompts, "\n")
}

// lastMessage returns the text of the last message of a parsed chat. A chat without messages, or
// with messages that are not objects, cannot be parsed.
func lastMessage(chat *ordered.Object) string {
	v, _ := chat.Get("messages")
	messages := v.([]ordered.Value)
	content, _ := messages[len(messages)-1].(*ordered.Object).Get("content")
	text, _ := content.(string)
	return text
}
