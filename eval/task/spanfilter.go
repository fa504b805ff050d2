package task

import (
	"regexp"
	"strings"

	"github.com/dlclark/regexp2/v2"
)

// entityLabels are the names of kinds of entities that the filter format_span knows, in order, each
// with the kind.
var entityLabels = []struct{ name, kind string }{
	{"person", "PER"}, {"location", "LOC"}, {"organization", "ORG"}, {"counties", "LOC"}, {"places", "LOC"}, {"people", "PER"}, {"persons", "PER"},
	{"company", "ORG"}, {"country", "LOC"}, {"continent", "LOC"}, {"time", "DATE"}, {"date", "DATE"}, {"per", "PER"}, {"loc", "LOC"}, {"org", "ORG"},
}

var (
	entityLabel = func() (list []*regexp2.Regexp) {
		for _, l := range entityLabels {
			list = append(list, regexp2.MustCompile(`\b`+l.name+`\s*:`, regexp2.None))
		}
		return list
	}()
	entityList = regexp.MustCompile(`(PER|LOC|ORG|DATE):\s*([^$]+)`)
)

// spans is the filter format_span: it returns the named entities in an answer in the form
// "per: ann $ loc: rome". The answer has lists of entities after the names of their kinds.
func spans(answer string) string {
	text := strings.ToLower(answer)
	for i, l := range entityLabels {
		if changed, err := entityLabel[i].Replace(text, l.kind+":", -1, -1); err == nil {
			text = changed
		}
	}
	text = strings.TrimRight(strings.ReplaceAll(text, "$$", "$"), "$")
	text = strings.TrimSpace(strings.ReplaceAll(text, "\n", "$"))
	var list []string
	for _, m := range entityList.FindAllStringSubmatch(text, -1) {
		for entity := range strings.SplitSeq(m[2], ",") {
			if entity = strings.TrimSpace(entity); entity != "none" {
				list = append(list, strings.ToLower(m[1])+": "+entity)
			}
		}
	}
	return strings.Join(list, " $ ")
}
