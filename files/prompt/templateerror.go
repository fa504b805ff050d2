package prompt

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Reports of text/template about what users write.
var (
	unknownFunction = regexp.MustCompile(`function "(\w+)" not defined`)          // {{name}}
	atAction        = regexp.MustCompile(`executing ".*?" at <(.*?)>: `)          // precedes why a template cannot be executed
	noField         = regexp.MustCompile(`can't evaluate field (\w+) in type .*`) // {{.text.length}}
)

// spacedName matches a column with spaces in its name that is written like one without.
var spacedName = regexp.MustCompile(`\{\{ *\.?(\w+(?: \w+)+) *\}\}`)

// plainWords has the reports of text/template that need the words of a template's author.
var plainWords = strings.NewReplacer(
	"error calling", "function",
	"map has no entry for key", "there is no key",
	"unclosed action", `"{{" is not closed: write "}}" behind the column's name`,
	"bad character U+007D '}'", `"}" stands where "}}" is expected`,
	"unexpected EOF", "{{if}}, {{range}} or {{with}} is not closed: write {{end}}",
	"missing value for command", "{{}} is empty: write a column, such as {{.text}}",
	"unterminated quoted string", "a quote is not closed",
	"unclosed left paren", "a parenthesis is not closed",
	"unexpected right paren", "a parenthesis is closed that was not opened",
)

// plainError returns an error of text/template in plain words. It begins with the template's name.
func plainError(err error) error {
	text := strings.TrimPrefix(err.Error(), "template: ")
	text = atAction.ReplaceAllString(text, "$1: ")
	text = noField.ReplaceAllString(text, `the value has no field "$1"`)
	return errors.New(plainWords.Replace(text))
}

// parseError returns the error of a template that cannot be parsed, with a hint if a column was
// written as in Jinja, or has a name that is written in another way.
func parseError(err error, source string) error {
	text := plainError(err).Error()
	m := unknownFunction.FindStringSubmatch(text)
	switch name := spacedName.FindStringSubmatch(source); {
	case m != nil && name != nil:
		return fmt.Errorf("%s: write {{index . %q}} for a column with a space in its name", text, name[1])
	case m != nil:
		return fmt.Errorf("%s: if it is a column, write {{.%s}}; the functions are %s", text, m[1], strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
	case strings.Contains(text, "bad character"):
		return fmt.Errorf(`%s: write {{index . "NAME"}} for a column whose name has other characters than letters, digits and _`, text)
	}
	return errors.New(text)
}
