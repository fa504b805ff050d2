package prompt

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/files/table"
)

// UseError means that neither the options nor the columns show how the records become requests.
type UseError struct{ Columns []string }

// Error returns a message with the columns and an example of --prompt.
func (e *UseError) Error() string {
	if len(e.Columns) == 0 {
		return "the input has no columns"
	}
	return fmt.Sprintf("the columns are %s, but a prompt is missing: give --prompt, such as --prompt '%s'%s",
		table.Quoted(e.Columns), "Translate: "+placeholder(likeliest(e.Columns, nil)), table.DelimiterHint(e.Columns))
}

// placeholder returns what inserts a column into a template.
func placeholder(column string) string {
	for i, r := range column {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return fmt.Sprintf("{{index . %q}}", column)
		}
	}
	return "{{." + column + "}}"
}

// Names of columns in lower case: those that mostly have the text of a row, and those that name it.
var (
	textColumns = []string{"text", "question", "query", "input", "content", "sentence", "title"}
	nameColumns = []string{"", "id", "custom_id", "uuid", "key", "index", "nr", "no", "number"}
)

// likeliest returns the column that a template most likely should have: one that the template's own
// texts mention, else one with a usual name.
func likeliest(columns, literal []string) string {
	words := regexp.MustCompile(`\pL[\pL\pN_]*`).FindAllString(strings.ToLower(strings.Join(literal, " ")), -1)
	for _, usual := range []func(name string) bool{
		func(name string) bool { return slices.Contains(words, name) },
		func(name string) bool { return slices.Contains(textColumns, name) },
		func(name string) bool { return !slices.Contains(nameColumns, name) },
	} {
		if i := slices.IndexFunc(columns, func(c string) bool { return usual(strings.ToLower(c)) }); i >= 0 {
			return columns[i]
		}
	}
	return columns[0]
}

// singleBraces matches a name in single braces, as Python's format strings have it.
var singleBraces = regexp.MustCompile(`\{ *([^{}]+?) *\}`)

// braced returns the first column that stands in single braces in the templates' own texts.
func (o *Options) braced(columns []string) string {
	for _, m := range singleBraces.FindAllStringSubmatch(strings.Join(o.literal(), "\n"), -1) {
		if slices.Contains(columns, m[1]) {
			return m[1]
		}
	}
	return ""
}

// literal returns the texts of the templates themselves.
func (o *Options) literal() (texts []string) {
	for _, t := range []*Template{o.Template, o.System} {
		if t != nil {
			texts = append(texts, t.literal...)
		}
	}
	return texts
}

// constant reports whether a template is the same for all records.
func (o *Options) constant() bool {
	return o.Template != nil && len(o.columns()) == 0 && !o.Template.whole && (o.System == nil || !o.System.whole)
}

// warning warns of a template without columns, and of columns that look inserted but are not. It is
// empty if there is nothing to warn of.
func (o *Options) warning(columns []string) string {
	if len(columns) == 0 {
		return ""
	}
	if o.constant() {
		return fmt.Sprintf("the template names no column, so all rows have the same prompt: write %s to insert a column (the columns are %s)",
			placeholder(likeliest(columns, o.literal())), table.Quoted(columns))
	}
	if name := o.braced(columns); name != "" {
		return fmt.Sprintf("the template has {%s} as plain text: write %s to insert the column", name, placeholder(name))
	}
	return ""
}
