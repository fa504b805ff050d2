package task

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Prompt is the prompt of a row and the expected answer.
type Prompt struct {
	// Context is the text that the model gets: description, examples and the row's own prompt.
	Context string
	// Contexts is set for a MultipleChoice row whose choices are in the middle of a text, as in
	// WinoGrande. For "The _ is cold." with the options sun and moon, Contexts are "The sun" and
	// "The moon", and both Choices are " is cold.". For other rows Contexts is nil, and Context
	// precedes all choices.
	Contexts []string
	// Choices are the continuations of a MultipleChoice row, each with the delimiter before it. For
	// a LogLikelihood row, the target is the only element.
	Choices []string
	Right   int      // number of the right choice, from 0; -1 if the row has no choices
	Targets []string // accepted answers of a Generate row; the first is used if the row is an example

	Counted      string        // text whose words or bytes are counted for the perplexity per word or byte; empty means the target
	Instructions []Instruction // instructions of an IFEval row
}

// Prompt returns the prompt of a row. shots are the examples before it.
func (t *Task) Prompt(row *ordered.Object, shots []*ordered.Object) (Prompt, error) {
	context, err := t.description(row)
	if err != nil {
		return Prompt{}, fmt.Errorf("description: %w", err)
	}
	for _, s := range shots {
		text, answer, err := t.example(s)
		if err != nil {
			return Prompt{}, fmt.Errorf("make an example for the row from another row: %w", err)
		}
		context += text + t.TargetDelimiter + answer + t.ShotDelimiter
	}
	row = t.converted(row)
	asked, err := t.Text.value(row)
	if err != nil {
		return Prompt{}, fmt.Errorf("doc_to_text: %w", err)
	}
	p, err := t.expected(row, asked)
	if err == nil && t.prepare != nil {
		err = t.prepare(row, &p)
	}
	p.Context = context + textOf(asked)
	switch {
	case err != nil:
		return Prompt{}, err
	case t.Type == LogLikelihood && len(p.Targets) == 0:
		return Prompt{}, errors.New("doc_to_target: the list is empty, but must have a text")
	case t.within(asked):
		p.Context = context
		for i, c := range p.Choices {
			p.Contexts = append(p.Contexts, context+c)
			p.Choices[i] = t.TargetDelimiter + p.Targets[0]
		}
	case t.Type == MultipleChoice:
		for i := range p.Choices {
			p.Choices[i] = t.TargetDelimiter + p.Choices[i]
		}
	case t.Type == LogLikelihood:
		p.Choices = p.Targets[:1] // no delimiter is added: the target in the task file begins with the space
	}
	return p, nil
}

// within reports whether the choices are in the middle of a text, as in WinoGrande. asked is the
// value of doc_to_text. In such a task, doc_to_text is the number of the right choice,
// doc_to_choice has the text up to the end of each choice, and doc_to_target is the text after the
// choice.
func (t *Task) within(asked ordered.Value) bool {
	_, number := asked.(int64)
	return t.Type == MultipleChoice && number
}

// ContextOf returns the context of a choice.
func (p *Prompt) ContextOf(choice int) string {
	if p.Contexts != nil {
		return p.Contexts[choice]
	}
	return p.Context
}

func (t *Task) description(row *ordered.Object) (string, error) {
	f := &t.Description
	if f.template == nil {
		return "", nil
	}
	if v, ok := row.Get(f.source); ok {
		return textOf(v), nil
	}
	return f.render(row)
}

func (t *Task) converted(row *ordered.Object) *ordered.Object {
	if t.convert == nil {
		return row
	}
	return t.convert(row)
}

func (t *Task) example(row *ordered.Object) (text, answer string, err error) {
	row = t.converted(row)
	asked, err := t.Text.value(row)
	if err != nil {
		return "", "", fmt.Errorf("doc_to_text: %w", err)
	}
	p, err := t.expected(row, asked)
	text = textOf(asked)
	switch {
	case err != nil:
		return "", "", err
	case t.within(asked):
		return p.Choices[p.Right], p.Targets[0], nil
	case t.Type == MultipleChoice && p.Right >= 0:
		return text, p.Choices[p.Right], nil
	case len(p.Targets) == 0:
		return "", "", errors.New("doc_to_target: the list of accepted answers is empty")
	}
	return text, p.Targets[0], nil
}

// expected returns a Prompt with the choices and the target of a row. asked is the value of
// doc_to_text.
func (t *Task) expected(row *ordered.Object, asked ordered.Value) (Prompt, error) {
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
	switch {
	case t.within(asked):
		p.Targets = []string{textOf(v)}
		if p.Right, err = p.choice(asked); err != nil {
			return Prompt{}, fmt.Errorf("doc_to_text: %w", err)
		}
	case t.Type == MultipleChoice:
		if p.Right, err = p.choice(v); err != nil {
			return Prompt{}, fmt.Errorf("doc_to_target: %w", err)
		}
	default:
		p.Targets = accepted(v)
	}
	return p, nil
}

// choice returns the number of the choice that a target names. v is the target: the number of a
// choice, or the text of one.
func (p *Prompt) choice(v ordered.Value) (int, error) {
	text := textOf(v)
	switch v := v.(type) {
	case bool:
		text = "0"
		if v {
			text = "1"
		}
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64) // as an integer if it is whole
	}
	n, err := strconv.Atoi(text)
	if err == nil && n >= 0 && n < len(p.Choices) {
		return n, nil
	}
	if i := slices.Index(p.Choices, text); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%q is not the number or text of one of the %d choices", text, len(p.Choices))
}

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
	return textList(values)
}
