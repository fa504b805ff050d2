package task

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Prompt is the prompt of a row and the expected answer.
type Prompt struct {
	// Messages are the parts of the prompt: the description with the role "system", then questions
	// and answers of examples and the row's own question with the roles "user" and "assistant". The
	// last message has the role "assistant" if the answer has a given beginning (gen_prefix).
	Messages []Message
	// Context is the text that the model gets: all messages with their delimiters.
	Context string
	// Contexts is set for a MultipleChoice row whose choices are in the middle of a text, as in
	// WinoGrande. For "The _ is cold." with the options sun and moon, Contexts are "The sun" and
	// "The moon", and both Choices are " is cold.". For other rows Contexts is nil, and Context
	// precedes all choices.
	Contexts []string
	// Choices are the continuations of a MultipleChoice row, each with the delimiter before it. For
	// a LogLikelihood row, the target is the only element.
	Choices []string
	Right   int      // number of the right choice, from 0; -1 if the row has no choices, or if none is right
	Rights  []int    // numbers of all right choices if the target is a list of numbers
	Targets []string // accepted answers of a Generate row; the first is used if the row is an example

	Target string // value of doc_to_target, as Python's str writes it

	Counted      string        // text whose words or bytes are counted for the perplexity per word or byte; empty means the target
	Instructions []Instruction // instructions of an IFEval row

	// Score scores a response by metrics of the task's own. It is nil if the metrics of the task's
	// type are used.
	Score func(r Response) (Scores, error)

	row  *ordered.Object
	gold ordered.Value // the target, as functions in Python get it
}

// Prompt returns the prompt of a row. shots are the examples before it. All of them are rows that
// Rows returned.
func (t *Task) Prompt(row *ordered.Object, shots []*ordered.Object) (Prompt, error) {
	described, err := t.description(row)
	if err != nil {
		return Prompt{}, fmt.Errorf("description: %w", err)
	}
	var before []Message
	if described != "" {
		before = append(before, Message{Role: "system", Content: described})
	}
	for _, s := range shots {
		example, err := t.example(s)
		if err != nil {
			return Prompt{}, fmt.Errorf("make an example for the row from another row: %w", err)
		}
		before = append(before, example...)
	}
	q, err := t.question(row, &t.Form)
	if err != nil {
		return Prompt{}, err
	}
	p := Prompt{Right: -1, Choices: q.choices, Target: jinja.Str(q.target), row: row, gold: q.target}
	if t.results.prepare != nil {
		err = t.results.prepare(row, &p)
	}
	if t.results.score != nil {
		p.Score = func(r Response) (Scores, error) { return t.results.score(row, r) }
	}
	if err == nil {
		err = t.expect(&p, &q)
	}
	if err != nil {
		return Prompt{}, err
	}
	t.ask(&p, &q, before)
	return p, nil
}

// ask sets the context and the continuations of a prompt. before are the messages of description
// and examples.
func (t *Task) ask(p *Prompt, q *question, before []Message) {
	p.Messages = append(slices.Clone(before), turn(q.text, "", q.prefix, t.TargetDelimiter, "")...)
	p.Context = join(p.Messages)
	switch {
	case q.within:
		p.Messages, p.Context = before, join(before)
		for i, c := range q.choices {
			p.Contexts = append(p.Contexts, join(append(slices.Clone(before), turn(c, "", q.prefix, "", "")...)))
			p.Choices[i] = t.TargetDelimiter + textOf(q.target)
		}
	case t.Type == MultipleChoice:
		for i, c := range q.choices {
			p.Choices[i] = t.TargetDelimiter + c
		}
	case t.Type == LogLikelihood:
		p.Choices = p.Targets[:1] // no delimiter is added: the target in the task file begins with the space
	}
}

// Row returns the row, with the columns that the task adds to it.
func (p *Prompt) Row() *ordered.Object { return p.row }

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

// Form has the fields that make the question and the answer of a row.
type Form struct {
	Text            Field
	Target          Field  // the expected answer: a text, a list of accepted ones, or the number of a choice
	Choices         Field  // the continuations of MultipleChoice
	Prefix          Field  // the beginning of the answer, which the prompt ends with
	TargetDelimiter string // between prompt and target
	ShotDelimiter   string // after an example
}

// question is a row by the fields of a Form.
type question struct {
	text    string
	choices []string // nil if the task has no choices
	target  ordered.Value
	prefix  string
	// within is set if the choices are in the middle of a text, as in WinoGrande: doc_to_text is
	// the number of the right choice, doc_to_choice has the text up to the end of each choice, and
	// doc_to_target is the text after the choice.
	within bool
	right  ordered.Value // the number of the right choice if within is set
}

func (t *Task) question(row *ordered.Object, f *Form) (q question, err error) {
	if !f.Choices.Missing() {
		if q.choices, err = f.Choices.list(row); err != nil {
			return q, fmt.Errorf("doc_to_choice: %w", err)
		}
	}
	text, rendered, err := f.Text.value(row)
	if err != nil {
		return q, fmt.Errorf("doc_to_text: %w", err)
	}
	if n, ok := digits(text); ok && rendered && q.choices != nil {
		text = n
	}
	_, number := text.(int64)
	q.within = t.Type == MultipleChoice && number
	if q.text = textOf(text); q.within {
		q.right = text
	}
	if q.target, rendered, err = f.Target.value(row); err != nil {
		return q, fmt.Errorf("doc_to_target: %w", err)
	}
	if rendered {
		q.target = parsedTarget(q.target, q.choices != nil)
	}
	if !f.Prefix.Missing() {
		prefix, _, err := f.Prefix.value(row)
		if err != nil {
			return q, fmt.Errorf("gen_prefix: %w", err)
		}
		q.prefix = textOf(prefix)
	}
	return q, nil
}

// digits returns the number that a text of digits stands for.
func digits(v ordered.Value) (int64, bool) {
	s, ok := v.(string)
	if !ok || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// parsedTarget returns what the text of a template stands for: a number if the task has choices, a
// list, or the text. Values of columns are not parsed.
func parsedTarget(v ordered.Value, choices bool) ordered.Value {
	if n, ok := digits(v); ok && choices {
		return n
	}
	if s, ok := v.(string); ok && len(s) >= 2 && s[0] == '[' && s[len(s)-1] == ']' {
		if list, err := literal(s); err == nil {
			return list
		}
	}
	return v
}

// expect sets the right choices and the accepted answers of a prompt.
func (t *Task) expect(p *Prompt, q *question) (err error) {
	switch {
	case q.within:
		p.Right, err = index(q.right, q.choices)
		p.Targets = []string{textOf(q.target)}
		if err != nil || p.Right < 0 {
			return fmt.Errorf("doc_to_text: %s is not the number of one of the %d choices", textOf(q.right), len(q.choices))
		}
	case t.Type == MultipleChoice:
		list, isList := q.target.([]ordered.Value)
		if !isList {
			p.Right, err = index(q.target, q.choices)
			return inField("doc_to_target", err)
		}
		for _, v := range list {
			i, err := index(v, q.choices)
			if err != nil {
				return inField("doc_to_target", err)
			}
			p.Rights = append(p.Rights, i)
		}
		if len(list) > 0 {
			p.Right = p.Rights[0]
		}
	case q.choices != nil && t.Type.Generates():
		i, err := index(q.target, q.choices)
		if _, text := q.target.(string); err != nil || i < 0 || text {
			return fmt.Errorf("doc_to_target: %q is not the number of one of the %d choices", textOf(q.target), len(q.choices))
		}
		p.Targets, p.Choices, p.gold = []string{q.choices[i]}, nil, q.choices[i]
	default:
		p.Targets = accepted(q.target)
		if t.Type == LogLikelihood && len(p.Targets) == 0 {
			return errors.New("doc_to_target: the list is empty, but must have a text")
		}
	}
	return nil
}

func inField(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// index returns the number of the choice that a target names: by its number, or by its text if the
// target is a text. It returns -1 if there is no such choice.
func index(v ordered.Value, choices []string) (int, error) {
	switch v := v.(type) {
	case string:
		return slices.Index(choices, v), nil
	case bool:
		if v {
			return min(1, len(choices)-1), nil
		}
		return 0, nil
	case int64:
		if v >= 0 && v < int64(len(choices)) {
			return int(v), nil
		}
		return -1, nil
	case float64:
		for i := range choices {
			if float64(i) == v {
				return i, nil
			}
		}
		return -1, nil
	}
	return 0, fmt.Errorf("%s is neither the number nor the text of a choice", textOf(v))
}

// example returns the messages of a row that is an example.
func (t *Task) example(row *ordered.Object) ([]Message, error) {
	f := t.shotForm()
	q, err := t.question(row, f)
	if err != nil {
		return nil, err
	}
	answer := ""
	p := Prompt{Right: -1, Choices: q.choices}
	err = t.expect(&p, &q)
	switch {
	case err != nil:
		return nil, err
	case q.within:
		q.text, answer = q.choices[p.Right], p.Targets[0]
	case t.Type == MultipleChoice && p.Right >= 0:
		answer = q.choices[p.Right]
	case t.Type == MultipleChoice:
		text, ok := q.target.(string)
		if !ok {
			return nil, fmt.Errorf("doc_to_target: %s is not the number of one of the %d choices", textOf(q.target), len(q.choices))
		}
		answer = text
	case len(p.Targets) == 0 && t.Type != Judge:
		return nil, errors.New("doc_to_target: the list of accepted answers is empty")
	case len(p.Targets) > 0:
		answer = p.Targets[0]
	}
	return turn(q.text, answer, q.prefix, f.TargetDelimiter, f.ShotDelimiter), nil
}

// shotForm returns the form of examples: that of the rows, with the fields that fewshot_config
// replaces.
func (t *Task) shotForm() *Form {
	f := t.Form
	for _, each := range []struct{ from, to *Field }{{&t.Shot.Text, &f.Text}, {&t.Shot.Target, &f.Target}, {&t.Shot.Choices, &f.Choices}, {&t.Shot.Prefix, &f.Prefix}} {
		if !each.from.Missing() {
			*each.to = *each.from
		}
	}
	if t.Shot.TargetDelimiter != nil {
		f.TargetDelimiter = *t.Shot.TargetDelimiter
	}
	if t.Shot.ShotDelimiter != nil {
		f.ShotDelimiter = *t.Shot.ShotDelimiter
	}
	return &f
}

func accepted(v ordered.Value) []string {
	values, ok := v.([]ordered.Value)
	if !ok {
		return []string{textOf(v)}
	}
	return textList(values)
}
