package console

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/serve/batch"
)

// What a batch's page shows of its files.
const (
	shownRows = 5
	shownText = 400     // characters of a row
	shownLine = 1 << 20 // bytes; longer lines are left out
)

// shownRow is a row of a batch's output or error file.
type shownRow struct{ ID, Text string }

// firstRows returns the first rows of a file of a batch that has ended; none if id is nil.
func (c *Console) firstRows(id *string) ([]shownRow, error) {
	if id == nil {
		return nil, nil
	}
	file, _, err := c.Store.OpenFile(*id)
	if errors.Is(err, batch.ErrNoFile) {
		return nil, nil // a client has deleted it
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // the file was only read
	lines := bufio.NewReaderSize(file, 64<<10)
	var rows []shownRow
	for len(rows) < shownRows {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, fmt.Errorf("read file %s: %w", *id, err)
		}
		if len(line) > 0 {
			rows = append(rows, rowOf(line))
		}
	}
	return rows, nil
}

// readLine returns the next line, or an empty one instead of a line of more than shownLine bytes.
func readLine(in *bufio.Reader) (line []byte, err error) {
	size := 0
	for {
		part, err := in.ReadSlice('\n')
		if size += len(part); size <= shownLine {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if size > shownLine {
			line = nil
		}
		if size > 0 && errors.Is(err, io.EOF) {
			err = nil
		}
		return line, err
	}
}

// rowOf returns what the page shows of a line: the answer, or the error.
func rowOf(line []byte) shownRow {
	var l struct {
		CustomID string `json:"custom_id"`
		Response *struct {
			Body struct {
				Choices []struct {
					Text    string
					Message struct{ Content string }
				}
				Error *struct{ Message string }
			}
		}
		Error *struct{ Message string }
	}
	if json.Unmarshal(line, &l) != nil {
		return shownRow{Text: "a line that is not a result"}
	}
	var texts []string
	switch {
	case l.Error != nil:
		texts = []string{l.Error.Message}
	case l.Response != nil && l.Response.Body.Error != nil:
		texts = []string{l.Response.Body.Error.Message}
	case l.Response != nil:
		for _, choice := range l.Response.Body.Choices {
			texts = append(texts, choice.Text+choice.Message.Content)
		}
	}
	return shownRow{l.CustomID, excerpt(strings.Join(texts, "\n"))}
}

func excerpt(s string) string {
	if utf8.RuneCountInString(s) <= shownText {
		return s
	}
	return string([]rune(s)[:shownText]) + "…"
}

// Outcome describes the speed of a batch that has ended; it is empty for other batches.
func (p progress) Outcome() string {
	b := p.Batch
	var ended *int64
	for _, at := range []*int64{b.FinalizingAt, b.CompletedAt, b.CancelledAt, b.ExpiredAt, b.FailedAt} {
		if ended == nil {
			ended = at
		}
	}
	if !b.Status.Ended() || b.InProgressAt == nil || ended == nil {
		return ""
	}
	took := time.Duration(max(1, *ended-*b.InProgressAt)) * time.Second
	text := fmt.Sprintf("%s: %s rows/s", took, figure(float64(p.Finished())/took.Seconds()))
	if b.Usage != nil {
		text += fmt.Sprintf(" · %s tokens/s", figure(float64(b.Usage.OutputTokens)/took.Seconds()))
	}
	return text
}
