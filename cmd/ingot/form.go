package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/openai"
)

// formFlags are the flags that give the answers of all rows a form.
type formFlags struct {
	schema, choices, regex, grammar string

	form *generation.Constraint // once it has been read; nil before, and if no flag gives one
}

const answerForm = "Form of Answers"

func (f *formFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.schema, "schema", "",
		"answers are JSON of a schema: `FILE` with a JSON Schema, or a list such as 'label:positive|negative, score:number, reason'")
	flags.StringVar(&f.choices, "choices", "", "answers are one of several texts: `A,B,...`, or a file with one on each line")
	flags.StringVar(&f.regex, "regex", "", "answers match the regular expression `RE` from beginning to end")
	flags.StringVar(&f.grammar, "grammar", "", "answers are of the grammar in `FILE`, in the format of Lark or GBNF")
	section(flags, answerForm, "schema", "choices", "regex", "grammar")
}

// constraint returns the form of the answers; nil if no flag gives one.
func (f *formFlags) constraint(given func(flag string) bool) (*generation.Constraint, error) {
	if f.form != nil {
		return f.form, nil
	}
	var form *generation.Constraint
	var first string
	for _, flag := range []struct {
		name string
		read func() (generation.Constraint, error)
	}{{"schema", f.readSchema}, {"choices", f.readChoices}, {"regex", f.readRegex}, {"grammar", f.readGrammar}} {
		if !given(flag.name) {
			continue
		}
		if form != nil {
			return nil, fmt.Errorf("--%s and --%s both give the form of the answers: give one", first, flag.name)
		}
		read, err := flag.read()
		if err == nil {
			err = grammar.Check(&read)
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag.name, err)
		}
		form, first = &read, flag.name
	}
	if form != nil && given("ignore-eos") {
		return nil, fmt.Errorf("--%s and --ignore-eos cannot be combined: an answer in a given form ends when it is complete", first)
	}
	f.form = form
	return form, nil
}

// addTo adds the form of the answers to the defaults of rows.
func (f *formFlags) addTo(o *prompt.Options, given func(flag string) bool) error {
	form, err := f.constraint(given)
	if err != nil || form == nil {
		return err
	}
	field, value := openai.ConstraintField(*form)
	o.Defaults = append(o.Defaults, prompt.Default{Setting: field, Value: value})
	return nil
}

func (f *formFlags) readSchema() (generation.Constraint, error) {
	text := strings.TrimSpace(f.schema)
	if text != "" && !strings.HasPrefix(text, "{") {
		content, isFile, err := fileOrText(text, ".json")
		if err != nil {
			return generation.Constraint{}, err
		}
		if !isFile {
			schema, err := grammar.ShortSchema(text)
			return generation.Constraint{Schema: schema}, err
		}
		text = strings.TrimSpace(content)
	}
	if !json.Valid([]byte(text)) || !strings.HasPrefix(text, "{") {
		return generation.Constraint{}, errors.New("the schema is not a JSON object")
	}
	return generation.Constraint{Schema: text}, nil
}

func (f *formFlags) readChoices() (generation.Constraint, error) {
	content, isFile, err := fileOrText(f.choices, ".txt")
	if err != nil {
		return generation.Constraint{}, err
	}
	separator := ","
	if isFile {
		separator = "\n"
	}
	var choices []string
	for text := range strings.SplitSeq(content, separator) {
		if text = strings.TrimSpace(text); text != "" {
			choices = append(choices, text)
		}
	}
	if len(choices) < 2 {
		return generation.Constraint{}, fmt.Errorf("%q has fewer than two choices: give texts with commas between them, or a file with one on each line", f.choices)
	}
	return generation.Constraint{Choices: choices}, nil
}

func (f *formFlags) readRegex() (generation.Constraint, error) {
	if f.regex == "" {
		return generation.Constraint{}, errors.New("the expression is empty")
	}
	return generation.Constraint{Regex: f.regex}, nil
}

func (f *formFlags) readGrammar() (generation.Constraint, error) {
	content, err := readWholeFile(f.grammar)
	if err == nil && len(strings.TrimSpace(string(content))) == 0 {
		err = fmt.Errorf("%s is empty", f.grammar)
	}
	return generation.Constraint{Grammar: string(content)}, err
}

// fileOrText returns the content of a file if there is one at this path, or if the path has the
// given extension. Otherwise it returns the text itself.
func fileOrText(text, extension string) (content string, isFile bool, err error) {
	info, statErr := os.Stat(text)
	if (statErr != nil || info.IsDir()) && !strings.EqualFold(filepath.Ext(text), extension) {
		return text, false, nil
	}
	raw, err := readWholeFile(text)
	return strings.TrimPrefix(string(raw), "\ufeff"), true, err
}
