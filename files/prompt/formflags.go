package prompt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/openai"
)

// FormFlags has the values of the flags that give the answers of all rows a form. At most one may
// be given. Its errors name the flag.
type FormFlags struct {
	Schema  string // a JSON Schema, its short form, or a file with a JSON Schema
	Choices string // texts with commas between them, or a file with one on each line
	Regex   string // a regular expression
	Grammar string // a file with a grammar

	form *generation.Constraint // once it has been read, since a file may be a pipe; nil before, and if no flag gives one
}

// Read returns the form; nil if no flag gives one. given reports whether a flag is given.
func (f *FormFlags) Read(given func(flag string) bool) (*generation.Constraint, error) {
	if f.form != nil {
		return f.form, nil
	}
	var form *generation.Constraint
	var first string
	for _, flag := range []struct {
		name string
		read func() (generation.Constraint, error)
	}{{"schema", f.schema}, {"choices", f.choices}, {"regex", f.regex}, {"grammar", f.grammar}} {
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

// AddTo adds the form to the defaults of rows.
func (f *FormFlags) AddTo(o *Options, given func(flag string) bool) error {
	form, err := f.Read(given)
	if err != nil || form == nil {
		return err
	}
	field, value := openai.ConstraintField(*form)
	o.Defaults = append(o.Defaults, Default{Setting: field, Value: value})
	return nil
}

func (f *FormFlags) schema() (generation.Constraint, error) {
	text := strings.TrimSpace(f.Schema)
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

func (f *FormFlags) choices() (generation.Constraint, error) {
	content, isFile, err := fileOrText(f.Choices, ".txt")
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
		return generation.Constraint{}, fmt.Errorf("%q has fewer than two choices: give texts with commas between them, or a file with one on each line", f.Choices)
	}
	return generation.Constraint{Choices: choices}, nil
}

func (f *FormFlags) regex() (generation.Constraint, error) {
	if f.Regex == "" {
		return generation.Constraint{}, errors.New("the expression is empty")
	}
	return generation.Constraint{Regex: f.Regex}, nil
}

func (f *FormFlags) grammar() (generation.Constraint, error) {
	content, err := ReadTextFile(f.Grammar)
	if err == nil && len(strings.TrimSpace(string(content))) == 0 {
		err = fmt.Errorf("%s is empty", f.Grammar)
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
	raw, err := ReadTextFile(text)
	return strings.TrimPrefix(string(raw), "\ufeff"), true, err
}
