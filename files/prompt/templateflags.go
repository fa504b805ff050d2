package prompt

import (
	"errors"
	"fmt"
)

// TemplateFlags has the values of the flags that make messages of the columns of records. Its
// errors name the flag.
type TemplateFlags struct {
	Prompt string // template of the user's message; @FILE reads it from a file
	System string // template of a system message, likewise
	File   string // file with the templates of several messages
}

// AddTo adds the templates of the given flags to the options. given reports whether a flag is
// given.
func (f *TemplateFlags) AddTo(o *Options, given func(flag string) bool) error {
	if given("prompt") && given("template") {
		return errors.New("--prompt and --template cannot be combined: give one")
	}
	var err error
	if given("system") {
		if o.System, err = templateOf("system", "--system", f.System); err != nil {
			return err
		}
	}
	switch {
	case given("prompt"):
		o.Template, err = templateOf("user", "--prompt", f.Prompt)
		return err
	case given("template"):
		text, err := ReadTextFile(f.File)
		if err != nil {
			return fmt.Errorf("--template: %w", err)
		}
		o.Template = &Template{}
		return o.Template.AddFile(f.File, string(text))
	}
	return nil
}

// templateOf returns the template of one message, from the value of a flag.
func templateOf(role, flag, value string) (*Template, error) {
	text, err := textOf(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	t := &Template{}
	err = t.Add(role, flag, text)
	return t, err
}
