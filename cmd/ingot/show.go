package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/ordered"
	"github.com/ingot-run/ingot/openai"
)

func newShow() *cobra.Command {
	var input string
	var from inputFlags
	cmd := &cobra.Command{
		Use:   "show ANSWERS [--input ROWS]",
		Short: "Print answers as text, with their figures",
		Long: `Show prints the rows of an output file as text: custom_id, answers or error, and figures such as tokens per second.
ANSWERS can be - for stdin. With --input ROWS, the file that was answered, it also prints the questions, in their
order; all answers must then fit into memory. Give it the flags with which the file was answered, such as --prompt.`,
		Example: `  ingot show answers.jsonl --input prompts.jsonl | less
  ingot results nightly-2026-01-02 --redis redis://localhost:6379/0 -o - | ingot show -`,
		Args: arguments("ANSWERS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			err := show(cmd, out, args[0], input, &from)
			return errors.Join(err, out.Flush())
		},
	}
	cmd.Flags().StringVar(&input, "input", "", "also print the questions of `ROWS`, the file that was answered")
	from.add(cmd.Flags())
	cmd.Flags().Lookup("format").Usage = "`FORMAT` of ROWS: " + table.FormatNames()
	return cmd
}

func show(cmd *cobra.Command, w io.Writer, answers, input string, from *inputFlags) error {
	if input == "" {
		return readOutput(cmd, answers, func(a outputRow) error { return a.write(w, "") })
	}
	if input == answers || sameFile(input, answers) {
		return usagef("%s is both ANSWERS and ROWS: give two different files", input)
	}
	if _, _, err := from.options(); err != nil {
		return err
	}
	byLine := map[int]outputRow{}
	if err := readOutput(cmd, answers, func(a outputRow) error { byLine[a.line] = a; return nil }); err != nil {
		return err
	}
	in, err := from.open(cmd, []string{input})
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	err = showRows(cmd.Context(), w, byLine, rows.NewReader(in, rows.Options{Format: in.format, IgnoreUnknown: true}), answers)
	return in.hint(err)
}

// showRows prints the rows of a file with their answers.
func showRows(ctx context.Context, w io.Writer, byLine map[int]outputRow, in *rows.Reader, answers string) error {
	for row, err := range in.Rows(ctx) {
		if err != nil {
			return err
		}
		a, ok := byLine[row.Line]
		if !ok {
			a = outputRow{CustomID: row.CustomID, missing: true}
		} else if a.sum != row.Sum {
			return fmt.Errorf("%s was %w: line %d of ROWS is not the row that was answered", answers, rows.ErrOtherFile, row.Line)
		}
		delete(byLine, row.Line)
		if err := a.write(w, question(row)); err != nil {
			return err
		}
	}
	if len(byLine) == 0 {
		return nil
	}
	return fmt.Errorf("%s was %w: ROWS has no row on line %d", answers, rows.ErrOtherFile, slices.Min(slices.Collect(maps.Keys(byLine))))
}

// outputRow has the parts of an output line that are printed.
type outputRow struct {
	ID       string
	CustomID string `json:"custom_id"`
	Response struct {
		Body struct {
			Choices []struct {
				Text    string
				Message struct{ Content string }
			}
		}
	}
	Error *openai.Error
	Stats struct {
		PromptTokens     int     `json:"prompt_tokens"`
		CompletionTokens int     `json:"completion_tokens"`
		TTFTMS           float64 `json:"ttft_ms"`
		TotalMS          float64 `json:"total_ms"`
		PrefillTPS       float64 `json:"prefill_tps"`
		DecodeTPS        float64 `json:"decode_tps"`
		BatchMean        float64 `json:"batch_mean"`
	}

	line    int
	sum     string
	missing bool // the row has no answer yet
}

// readOutput reads the lines of an output file. It ignores an incomplete last line, which a run may be writing.
func readOutput(cmd *cobra.Command, path string, each func(outputRow) error) error {
	in, err := openInput(cmd, path)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	lines := bufio.NewReaderSize(in, 1<<20)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if err != nil && !json.Valid(text) {
			return nil
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		a, parseErr := parseOutputRow(text)
		if parseErr != nil {
			return fmt.Errorf("read %s:%d: the line is not a result of ingot", path, n)
		}
		if err := each(a); err != nil {
			return err
		}
	}
}

func parseOutputRow(text []byte) (outputRow, error) {
	var a outputRow
	if err := json.Unmarshal(text, &a); err != nil {
		return a, err
	}
	_, line, sum, err := openai.ParseResultID(a.ID)
	a.line, a.sum = line, fmt.Sprintf("%08x", sum)
	return a, err
}

// write prints a row: its question if it is given, then the answers or the error.
func (a *outputRow) write(w io.Writer, question string) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s\n", printable(a.CustomID))
	if question != "" {
		text.WriteString(paragraph("  ? ", question))
	}
	switch {
	case a.missing:
		text.WriteString("    no answer yet\n")
	case a.Error != nil:
		text.WriteString(paragraph("  ! ", a.Error.Code+": "+a.Error.Message))
	default:
		for _, c := range a.Response.Body.Choices {
			text.WriteString(paragraph("  > ", cmp.Or(c.Message.Content, c.Text)))
		}
		s := a.Stats
		fmt.Fprintf(&text, "    %d prompt tokens at %.0f/s, %d generated at %.0f/s, first after %.0f ms, all after %.0f ms, %.1f sequences per step\n",
			s.PromptTokens, s.PrefillTPS, s.CompletionTokens, s.DecodeTPS, s.TTFTMS, s.TotalMS, s.BatchMean)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// paragraph returns a text with a mark before its first line. The other lines are indented by the width of the mark.
func paragraph(mark, text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		b.WriteString(mark + printable(strings.TrimSuffix(line, "\r")) + "\n")
		mark = strings.Repeat(" ", len(mark))
	}
	return b.String()
}

// question returns the last message of a row's chat, or the prompts of its completion. It is empty if the row cannot be used.
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

func lastMessage(chat *ordered.Object) string {
	v, _ := chat.Get("messages")
	messages, _ := v.([]ordered.Value)
	if len(messages) == 0 {
		return ""
	}
	last, ok := messages[len(messages)-1].(*ordered.Object)
	if !ok {
		return ""
	}
	content, _ := last.Get("content")
	text, _ := content.(string)
	return text
}
