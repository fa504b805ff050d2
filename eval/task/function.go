package task

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/ordered"
)

// conversions are the Python functions of the harness's own tasks that have a form here, by task and function. They add columns to a row,
// or make its target.
var conversions = map[string]func(row *ordered.Object) (ordered.Value, error){
	"hellaswag utils.process_docs":                       nil, // as it is: see Convert
	"wikitext preprocess_wikitext.wikitext_detokenizer": nil,
	"wikitext preprocess_wikitext.process_results":      nil,
}

// function reads a field that may be a Python function.
func (r *reader) function(n *yaml.Node, f *Field) error {
	if !strings.HasPrefix(n.Tag, "!function") {
		if f == nil {
			return unsupported("anything but a Python function")
		}
		return f.read(n)
	}
	r.functions = append(r.functions, n.Value)
	if f != nil {
		f.made = func(row *ordered.Object) (ordered.Value, error) {
			page, _ := row.Get("page")
			return detokenizeWikitext(textOf(page)), nil
		}
	}
	return nil
}

var (
	brackets = regexp.MustCompile(`\[.*?\]`)
)

// hellaswag adds the columns query, choices and gold to a row of HellaSwag, as the harness's utils.process_docs does.
func hellaswag(row *ordered.Object) *ordered.Object {
	get := func(name string) string {
		v, _ := row.Get(name)
		if v == nil {
			return ""
		}
		return textOf(v)
	}
	context := get("ctx_a") + " " + capitalised(get("ctx_b"))
	made := row.Clone()
	made.Set("query", cleanHellaswag(get("activity_label")+": "+context))
	endings, _ := row.Get("endings")
	list, _ := endings.([]ordered.Value)
	choices := make([]ordered.Value, len(list))
	for i, e := range list {
		choices[i] = cleanHellaswag(textOf(e))
	}
	made.Set("choices", choices)
	return made
}

// capitalised is Python's capitalize: the first letter upper, the rest lower.
func capitalised(s string) string {
	for i := range s {
		if i > 0 {
			return strings.ToUpper(s[:i]) + strings.ToLower(s[i:])
		}
	}
	return strings.ToUpper(s)
}

// cleanHellaswag removes the marks of WikiHow from a text.
func cleanHellaswag(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), " [title]", ". ")
	s = brackets.ReplaceAllString(s, "")
	return strings.ReplaceAll(s, "  ", " ")
}
