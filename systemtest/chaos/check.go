package main

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
)

type answer struct {
	Seed             int64
	Choices          string // the choices as JSON text
	PromptTokens     int
	CompletionTokens int
	Error            string
}

type output struct {
	answers  map[string]answer // by custom_id
	attempts map[int]int       // number of answered rows for each number of attempts
	counts   counts
}

type counts struct {
	Total            int `json:"total"`
	Done             int `json:"done"`
	Failed           int `json:"failed"`
	Running          int `json:"running"`
	Lost             int `json:"lost"`
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// readOutput reads an output file. It returns an error for a custom_id in two lines, and for a line
// that is not a result of the batch.
func readOutput(path, batch string) (output, error) {
	f, err := os.Open(path)
	if err != nil {
		return output{}, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	o := output{answers: map[string]answer{}, attempts: map[int]int{}}
	for lines := bufio.NewReader(f); ; {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return o, nil
		}
		if err == nil {
			err = o.add(text, batch)
		}
		if err != nil {
			return o, fmt.Errorf("%s:%d: %w", path, o.counts.Total+1, err)
		}
	}
}

func (o *output) add(text []byte, batch string) error {
	var l struct {
		ID       string `json:"id"`
		CustomID string `json:"custom_id"`
		Response *struct {
			Body struct {
				Seed    int64           `json:"seed"`
				Choices json.RawMessage `json:"choices"`
				Usage   struct {
					PromptTokens     int `json:"prompt_tokens"`
					CompletionTokens int `json:"completion_tokens"`
				} `json:"usage"`
			} `json:"body"`
		} `json:"response"`
		Error json.RawMessage `json:"error"`
		Stats struct {
			Attempts int `json:"attempts"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if !strings.HasPrefix(l.ID, "batch_req_"+batch+"-") {
		return fmt.Errorf("the line's id %q is not of batch %s", l.ID, batch)
	}
	if _, twice := o.answers[l.CustomID]; twice {
		return fmt.Errorf("custom_id %q is in an earlier line too", l.CustomID)
	}
	var a answer
	if !bytes.Equal(l.Error, []byte("null")) {
		a.Error = string(l.Error)
		o.counts.Failed++
	}
	if l.Response != nil {
		body := l.Response.Body
		a.Seed, a.Choices = body.Seed, string(body.Choices)
		a.PromptTokens, a.CompletionTokens = body.Usage.PromptTokens, body.Usage.CompletionTokens
		o.counts.Done++
		o.attempts[l.Stats.Attempts]++
	}
	o.answers[l.CustomID] = a
	o.counts.Total++
	o.counts.PromptTokens += a.PromptTokens
	o.counts.CompletionTokens += a.CompletionTokens
	return nil
}

const maxNamed = 3

// compare compares answers with those of the undisturbed run, by custom_id. The error names missing
// rows, rows that the undisturbed run does not have, and rows whose answers differ.
func compare(undisturbed, got map[string]answer) error {
	var missing, different, unknown []string
	for name, want := range undisturbed {
		if a, ok := got[name]; !ok {
			missing = append(missing, name)
		} else if a != want {
			different = append(different, name)
		}
	}
	for name := range got {
		if _, ok := undisturbed[name]; !ok {
			unknown = append(unknown, name)
		}
	}
	return errors.Join(named("rows are missing", missing), named("rows are not in the input", unknown), named("rows have other answers", different))
}

func named(problem string, rows []string) error {
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return fmt.Errorf("%d %s, such as %s", len(rows), problem, strings.Join(rows[:min(maxNamed, len(rows))], ", "))
}

func check(undisturbed, got output, status counts) error {
	err := compare(undisturbed.answers, got.answers)
	if got.counts != undisturbed.counts {
		err = errors.Join(err, fmt.Errorf("the output has the counts %+v, the output of the undisturbed run has %+v", got.counts, undisturbed.counts))
	}
	if status != undisturbed.counts {
		err = errors.Join(err, fmt.Errorf("the status shows the counts %+v, the output of the undisturbed run has %+v", status, undisturbed.counts))
	}
	return err
}
