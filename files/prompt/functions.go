package prompt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/ingot-run/ingot/openai"
)

// functions are the functions of templates, besides those of text/template. The value is their last
// parameter, so that it can come from a pipe, as in {{.text | trim | truncate 100}}.
var functions = template.FuncMap{
	"json": func(v any) (string, error) {
		text, err := openai.Marshal(v)
		return string(text), err
	},
	"trim":     ofText(strings.TrimSpace),
	"upper":    ofText(strings.ToUpper),
	"lower":    ofText(strings.ToLower),
	"replace":  replace,
	"truncate": truncate,
	"default":  withDefault,
	"index":    index,
	"printf":   printf,
}

// ofText returns a function of a text as one of a value. A null is an empty text.
func ofText(f func(string) string) func(any) (string, error) {
	return func(v any) (string, error) {
		s, err := asText(v)
		return f(s), err
	}
}

func asText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case absent, *null:
		return "", nil
	}
	return "", fmt.Errorf("%v is not a text", v)
}

// replace replaces all occurrences of old in a text.
func replace(old, with string, v any) (string, error) {
	if old == "" {
		return "", errors.New("replace: the text to replace is empty")
	}
	s, err := asText(v)
	return strings.ReplaceAll(s, old, with), err
}

// printf is fmt.Sprintf, but a verb that does not fit its value is an error, as %d for a text is.
// Texts are replaced for this check, since they may have what fmt writes for such a verb.
func printf(format string, args ...any) (string, error) {
	probes := slices.Clone(args)
	for i, a := range args {
		switch a.(type) {
		case string:
			probes[i] = ""
		case list:
			probes[i] = list{}
		case object:
			probes[i] = object{}
		}
	}
	if probe := fmt.Sprintf(strings.ReplaceAll(format, "%%", ""), probes...); strings.Contains(probe, "%!") {
		return "", fmt.Errorf("printf: the values do not fit %.100q, since it gives %.100q (values in CSV are texts, for %%s)", format, strings.TrimSpace(probe))
	}
	return fmt.Sprintf(format, args...), nil
}

// truncate returns at most n characters of a text.
func truncate(n int, v any) (string, error) {
	if n < 0 {
		return "", fmt.Errorf("truncate: %d is negative", n)
	}
	s, err := asText(v)
	for i := range s { // the index of each character
		if n == 0 {
			return s[:i], err
		}
		n--
	}
	return s, err
}

// withDefault returns instead if a value is null or a text without characters.
func withDefault(instead, v any) any {
	if s, err := asText(v); err == nil && s == "" {
		return instead
	}
	return v
}
