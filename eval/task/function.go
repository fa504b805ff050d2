package task

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Task files of the harness name Python functions, as module.function. The functions in the tables
// below are implemented here; all others are not supported.

// functionName returns the name of the Python function that a YAML value refers to. ok is false if
// it refers to none.
func functionName(n *yaml.Node) (name string, ok bool) {
	return n.Value, strings.HasPrefix(n.Tag, "!function")
}

func unsupportedFunction(name string) error { return unsupported("the Python function %q", name) }

// conversions are the functions for process_docs. Keys are "TASK FUNCTION". Each returns a copy of
// the row with additional columns.
var conversions = map[string]func(row *ordered.Object) *ordered.Object{
	"hellaswag utils.process_docs": hellaswag,
}

var fieldFunctions = map[string]func(row *ordered.Object) (ordered.Value, error){
	"preprocess_winogrande.doc_to_text":        winograndeRight,
	"preprocess_winogrande.doc_to_target":      winograndeEnd,
	"preprocess_winogrande.doc_to_choice":      winograndeBeginnings,
	"preprocess_wikitext.wikitext_detokenizer": wikitextPage,
}

// columnText returns a column's value. It returns an error if the value is not a text.
func columnText(row *ordered.Object, name string) (string, error) {
	v, ok := row.Get(name)
	if !ok {
		return "", fmt.Errorf("the row has no column %q", name)
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("column %q is not text", name)
	}
	return s, nil
}

// hellaswag adds the columns query (the activity and the beginning of the text) and choices (the
// endings), without WikiHow's marks such as [header].
func hellaswag(row *ordered.Object) *ordered.Object {
	text := func(name string) string {
		v, _ := row.Get(name)
		s, _ := v.(string)
		return s
	}
	made := row.Clone()
	made.Set("query", withoutMarks(text("activity_label")+": "+text("ctx_a")+" "+capitalised(text("ctx_b"))))
	endings, _ := row.Get("endings")
	list, _ := endings.([]ordered.Value)
	choices := make([]ordered.Value, len(list))
	for i, e := range list {
		choices[i] = withoutMarks(textOf(e))
	}
	made.Set("choices", choices)
	return made
}

// capitalised is Python's capitalize: the first character in upper case, the others in lower case.
func capitalised(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + strings.ToLower(s[n:])
}

var marks = regexp.MustCompile(`\[.*?\]`)

func withoutMarks(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), " [title]", ". ")
	return strings.ReplaceAll(marks.ReplaceAllString(s, ""), "  ", " ")
}

func winograndeBlank(row *ordered.Object) (before, after string, err error) {
	sentence, err := columnText(row, "sentence")
	if err != nil {
		return "", "", err
	}
	before, after, ok := strings.Cut(sentence, "_")
	if !ok {
		return "", "", errors.New(`column "sentence" has no blank ("_")`)
	}
	return before, after, nil
}

func winograndeRight(row *ordered.Object) (ordered.Value, error) {
	answer, err := columnText(row, "answer")
	if err != nil {
		return nil, err
	}
	switch answer {
	case "1":
		return int64(0), nil
	case "2":
		return int64(1), nil
	}
	return nil, fmt.Errorf(`column "answer" is %q, not "1" or "2"`, answer)
}

func winograndeEnd(row *ordered.Object) (ordered.Value, error) {
	_, after, err := winograndeBlank(row)
	return strings.TrimSpace(after), err
}

func winograndeBeginnings(row *ordered.Object) (ordered.Value, error) {
	before, _, err := winograndeBlank(row)
	if err != nil {
		return nil, err
	}
	var list []ordered.Value
	for _, name := range []string{"option1", "option2"} {
		option, err := columnText(row, name)
		if err != nil {
			return nil, err
		}
		list = append(list, before+option)
	}
	return list, nil
}

// wikitextChanges are the replacements that turn WikiText's tokens into plain text, in order. Those
// with expression set are regular expressions, as in Python's re.sub.
var wikitextChanges = []struct {
	from, to   string
	expression bool
}{
	{from: "s '", to: "s'"},
	{from: `/' [0-9]/`, to: `/'[0-9]/`, expression: true},
	{from: " @-@ ", to: "-"}, {from: " @,@ ", to: ","}, {from: " @.@ ", to: "."},
	{from: " : ", to: ": "}, {from: " ; ", to: "; "}, {from: " . ", to: ". "}, {from: " ! ", to: "! "}, {from: " ? ", to: "? "}, {from: " , ", to: ", "},
	{from: `\(\s*([^\)]*?)\s*\)`, to: `($1)`, expression: true},
	{from: `\[\s*([^\]]*?)\s*\]`, to: `[$1]`, expression: true},
	{from: `{\s*([^}]*?)\s*}`, to: `{$1}`, expression: true},
	{from: `"\s*([^"]*?)\s*"`, to: `"$1"`, expression: true},
	{from: `'\s*([^']*?)\s*'`, to: `'$1'`, expression: true},
	{from: "= = = =", to: "===="}, {from: "= = =", to: "==="}, {from: "= =", to: "=="},
	{from: " \u00b0 ", to: "\u00b0"},
	{from: " \n", to: "\n"}, {from: "\n ", to: "\n"},
	{from: " N ", to: " 1 "}, {from: " 's", to: "'s"},
}

// pageTime is the maximum time of a regular expression on one page.
const pageTime = 10 * time.Second

var wikitextExpressions = func() map[string]*regexp2.Regexp {
	all := map[string]*regexp2.Regexp{}
	for _, c := range wikitextChanges {
		if c.expression {
			re := regexp2.MustCompile(c.from, regexp2.None)
			re.MatchTimeout = pageTime
			all[c.from] = re
		}
	}
	return all
}()

func wikitextPage(row *ordered.Object) (ordered.Value, error) {
	s, err := columnText(row, "page")
	if err != nil {
		return nil, err
	}
	for _, c := range wikitextChanges {
		if !c.expression {
			s = strings.ReplaceAll(s, c.from, c.to)
			continue
		}
		if s, err = wikitextExpressions[c.from].Replace(s, c.to, -1, -1); err != nil {
			return nil, fmt.Errorf(`convert column "page" to plain text: %w`, err)
		}
	}
	return s, nil
}

// resultFunction replaces a Python function for process_results. Such a function scores rows with
// metrics of its own.
type resultFunction struct {
	metrics map[string]string // aggregation of each metric
	prepare func(row *ordered.Object, p *Prompt) error
}

// resultFunctions are the functions for process_results. Keys are "TASK FUNCTION".
var resultFunctions = map[string]resultFunction{
	"wikitext preprocess_wikitext.process_results": {metrics: metrics[Perplexity], prepare: func(row *ordered.Object, p *Prompt) (err error) {
		p.Counted, err = columnText(row, "page") // words and bytes are counted in the original page, not in the plain text
		return err
	}},
	"ifeval utils.process_results": {metrics: map[string]string{
		PromptStrict: "mean", PromptLoose: "mean", InstructionStrict: "weighted_mean", InstructionLoose: "weighted_mean",
	}, prepare: readInstructions},
}
