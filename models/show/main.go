// Command show prints prompts beside their answers and figures, for reading: show PROMPTS RESULTS.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// body is what show reads of a request.
type body struct {
	Prompt   string
	Messages []struct{ Content string }
}

// row is a line of the prompts' file: an OpenAI Batch line, or a bare body with an id.
type row struct {
	CustomID string `json:"custom_id"`
	ID       string
	Body     body
	body
}

// result is what show reads of an output line.
type result struct {
	CustomID string `json:"custom_id"`
	Response struct {
		Body struct {
			Choices []struct {
				Text    string
				Message struct{ Content string }
			}
		}
	}
	Error *struct{ Code, Message string }
	Stats struct {
		PromptTokens     int     `json:"prompt_tokens"`
		CompletionTokens int     `json:"completion_tokens"`
		TTFTMS           float64 `json:"ttft_ms"`
		TotalMS          float64 `json:"total_ms"`
		PrefillTPS       float64 `json:"prefill_tps"`
		DecodeTPS        float64 `json:"decode_tps"`
		BatchMean        float64 `json:"batch_mean"`
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: show PROMPTS RESULTS")
		os.Exit(2)
	}
	if err := show(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "show:", err)
		os.Exit(1)
	}
}

func show(w io.Writer, prompts, results string) error {
	rows, err := readLines[row](prompts)
	if err != nil {
		return err
	}
	lines, err := readLines[result](results)
	if err != nil {
		return err
	}
	byID := make(map[string]result, len(lines))
	for _, l := range lines {
		byID[l.CustomID] = l
	}
	var text strings.Builder
	for _, r := range rows {
		id := cmp.Or(r.CustomID, r.ID)
		fmt.Fprintf(&text, "\n%s\n  ? %s\n", id, r.question())
		l, ok := byID[id]
		if !ok {
			return fmt.Errorf("%s has no line for %q", results, id)
		}
		l.write(&text)
	}
	_, err = io.WriteString(w, text.String())
	return err
}

func (r row) question() string {
	b := r.Body
	if b.Prompt == "" && len(b.Messages) == 0 {
		b = r.body
	}
	if len(b.Messages) == 0 {
		return b.Prompt
	}
	return b.Messages[len(b.Messages)-1].Content
}

func (l result) write(w *strings.Builder) {
	if l.Error != nil {
		fmt.Fprintf(w, "  ! %s: %s\n", l.Error.Code, l.Error.Message)
		return
	}
	for _, c := range l.Response.Body.Choices {
		fmt.Fprintf(w, "  > %s\n", cmp.Or(c.Message.Content, c.Text))
	}
	s := l.Stats
	fmt.Fprintf(w, "    %d prompt tokens at %.0f/s, %d generated at %.0f/s, first after %.0f ms, all after %.0f ms, %.1f sequences a step\n",
		s.PromptTokens, s.PrefillTPS, s.CompletionTokens, s.DecodeTPS, s.TTFTMS, s.TotalMS, s.BatchMean)
}

// readLines decodes a file of one JSON value a line.
func readLines[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	var values []T
	d := json.NewDecoder(bufio.NewReader(f))
	for {
		var v T
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s, value %d: %w", path, len(values)+1, err)
		}
		values = append(values, v)
	}
}
