package task

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"

	"github.com/ingot-run/ingot/internal/ordered"
)

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

// wikitextCounted sets the text whose words and bytes are counted: the original page, not the plain
// text.
func wikitextCounted(row *ordered.Object, p *Prompt) (err error) {
	p.Counted, err = columnText(row, "page")
	return err
}
