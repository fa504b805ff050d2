package task

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ingot-run/ingot/ordered"
)

// Prompt is what is asked for a row, and what is expected.
type Prompt struct {
	Context string
	// Choices are the continuations of a MultipleChoice row, each with the delimiter before it; of a LogLikelihood row the one target.
	Choices []string
	Right   int      // the number of the right choice; -1 if the row has none
	Targets []string // the accepted answers of a Generate row; the first is that of an example
}

// Prompt makes the prompt of a row after examples.
func (t *Task) Prompt(row *ordered.Object, shots []*ordered.Object) (Prompt, error) {
	context := t.Description
	for _, s := range shots {
		text, answer, err := t.example(s)
		if err != nil {
			return Prompt{}, fmt.Errorf("make an example: %w", err)
		}
		context += text + t.TargetDelimiter + answer + t.ShotDelimiter
	}
	row = t.converted(row)
	text, err := t.Text.text(row)
	if err != nil {
		return Prompt{}, fmt.Errorf("doc_to_text: %w", err)
	}
	p, err := t.expected(row)
	p.Context = context + text
	switch {
	case err != nil:
		return Prompt{}, err
	case t.Type == MultipleChoice:
		for i := range p.Choices {
			p.Choices[i] = t.TargetDelimiter + p.Choices[i]
		}
	case t.Type == LogLikelihood:
		p.Choices = p.Targets[:1] // as it is: its task writes the space
	}
	return p, nil
}

func (t *Task) converted(row *ordered.Object) *ordered.Object {
	if t.convert == nil {
		return row
	}
	return t.convert(row)
}

// example returns the text and the answer of a row as an example.
func (t *Task) example(row *ordered.Object) (text, answer string, err error) {
	row = t.converted(row)
	if text, err = t.Text.text(row); err != nil {
		return "", "", fmt.Errorf("doc_to_text: %w", err)
	}
	p, err := t.expected(row)
	switch {
	case err != nil:
		return "", "", err
	case t.Type == MultipleChoice && p.Right >= 0:
		return text, p.Choices[p.Right], nil
	case len(p.Targets) == 0:
		return "", "", errors.New("the row has no answer")
	}
	return text, p.Targets[0], nil
}

// expected reads choices and target of a row.
func (t *Task) expected(row *ordered.Object) (Prompt, error) {
	p := Prompt{Right: -1}
	if !t.Choices.Missing() {
		var err error
		if p.Choices, err = t.Choices.list(row); err != nil {
			return Prompt{}, fmt.Errorf("doc_to_choice: %w", err)
		}
	}
	v, err := t.Target.value(row)
	if err != nil {
		return Prompt{}, fmt.Errorf("doc_to_target: %w", err)
	}
	if t.Type == MultipleChoice {
		p.Right, err = p.choice(v)
		if err != nil {
			return Prompt{}, fmt.Errorf("doc_to_target: %w", err)
		}
		return p, nil
	}
	p.Targets = accepted(v)
	return p, nil
}

// choice returns the number of the choice that a target names: by its number or, if it is none, by its text.
func (p *Prompt) choice(v ordered.Value) (int, error) {
	text := textOf(v)
	if b, ok := v.(bool); ok {
		text = "0"
		if b {
			text = "1"
		}
	}
	n, err := strconv.Atoi(text)
	if err == nil && n >= 0 && n < len(p.Choices) {
		return n, nil
	}
	for i, c := range p.Choices {
		if c == text {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%q is none of the %d choices", text, len(p.Choices))
}

// accepted returns the answers that a target accepts.
func accepted(v ordered.Value) []string {
	if s, ok := v.(string); ok {
		if len(s) < 2 || s[0] != '[' || s[len(s)-1] != ']' {
			return []string{s}
		}
		list, err := literal(s)
		if err != nil {
			return []string{s}
		}
		v = list
	}
	values, ok := v.([]ordered.Value)
	if !ok {
		return []string{textOf(v)}
	}
	list := make([]string, len(values))
	for i, each := range values {
		list[i] = textOf(each)
	}
	return list
}
