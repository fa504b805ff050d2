package task

import (
	"errors"
	"regexp"
	"strings"
	"unicode"

	"github.com/ingot-run/ingot/internal/ordered"
)

// The leaderboard's MATH, which compares answers in LaTeX after they are brought into a normal form
// (A. Lewkowycz et al., "Solving Quantitative Reasoning Problems with Language Models", 2022,
// appendix D). The harness also compares answers that differ with a program for algebra. Ingot has
// none, so such answers are not decided.

const noAnswer = "[invalidanswer]"

func mathQuestion(row *ordered.Object) (ordered.Value, error) {
	problem, err := columnText(row, "problem")
	return "Problem:\n" + problem + "\n\nSolution:", err
}

// mathRow leaves the hardest rows, with their answer.
func mathRow(row *ordered.Object) (*ordered.Object, error) {
	texts, err := columnTexts(row, "level", "problem", "solution")
	if err != nil || texts[0] != "Level 5" {
		return nil, err
	}
	made := row.Clone()
	made.Set("answer", boxed(texts[2]))
	return made, nil
}

// boxed returns what is in the last box of a solution: \boxed{...}, \boxed ... or \fbox{...}.
func boxed(solution string) string {
	const space = `\boxed `
	if i := strings.LastIndex(solution, space); i >= 0 {
		answer, _, _ := strings.Cut(solution[i+len(space):], "$")
		return answer
	}
	const command = `\boxed{`
	i := strings.LastIndex(solution, `\boxed`)
	if i < 0 || !strings.HasPrefix(solution[i:], command) {
		return noAnswer // as in the harness, which finds \fbox and then leaves it out
	}
	open := 0
	for j, c := range solution[i:] {
		switch c {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return solution[i+len(command) : i+j]
			}
		}
	}
	return noAnswer
}

// mathMetrics are the leaderboard's metrics of MATH, with their aggregations.
var mathMetrics = map[string]string{"exact_match": "mean", "exact_match_original": "mean"}

// mathScore compares the normal forms of an answer and the right one. The harness's exact_match is
// another comparison, by algebra; exact_match_original uses algebra if the normal forms differ.
func mathScore(row *ordered.Object, r Response) (Scores, error) {
	right, err := columnText(row, "answer")
	if err != nil {
		return Scores{}, err
	}
	given := normalMath(finalAnswer(r.Answer()))
	equal := given != noAnswer && strings.TrimSpace(given) == strings.TrimSpace(normalMath(right))
	scores := Scores{Values: map[string]float64{"exact_match": indicator(equal), "exact_match_original": indicator(equal)}, Undecided: []string{"exact_match"}}
	if !equal && given != noAnswer {
		scores.Undecided = append(scores.Undecided, "exact_match_original")
	}
	return scores, nil
}

var finalSentence = regexp.MustCompile(`Final Answer: The final answer is(.*?). I hope it is correct.`)

// finalAnswer returns the answer in the sentence that the examples end with.
func finalAnswer(text string) string {
	m := finalSentence.FindStringSubmatch(text + "I hope it is correct.")
	if m == nil {
		return noAnswer
	}
	return strings.TrimSpace(m[1])
}

// mathWords are texts that are replaced in an answer, in order: each second one takes the place of
// the one before it.
var mathWords = []string{
	"an ", "", "a ", "", ".$", "$", `\$`, "", `\ `, "", " ", "", "mbox", "text", `,\text{and}`, ",", `\text{and}`, ",", `\text{m}`, `\text{}`,
}

// mathUnits are removed from an answer, in order.
var mathUnits = []string{
	"square", "ways", "integers", "dollars", "mph", "inches", "ft", "hours", "km", "units", `\ldots`, "sue", "points", "feet", "minutes",
	"digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges", "students", "childrentickets", "multiples",
	`\text{s}`, `\text{.}`, "\\text{\ns}", `\text{}^2`, `\text{}^3`, "\\text{\n}", `\text{}`, `\mathrm{th}`, `^\circ`, `^{\circ}`, `\;`, `,\!`, "{,}", `"`, `\dots`,
}

// mathForms are replaced in an answer after that, in order.
var mathForms = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(.*?)(\$)(.*?)(\$)(.*)`), "$$${3}$$"},
	{regexp.MustCompile(`(\\text\{)(.*?)(\})`), "${2}"},
	{regexp.MustCompile(`(\\textbf\{)(.*?)(\})`), "${2}"},
	{regexp.MustCompile(`(\\overline\{)(.*?)(\})`), "${2}"},
	{regexp.MustCompile(`(\\boxed\{)(.*)(\})`), "${2}"},
	{regexp.MustCompile(`(frac)([^{])(.)`), "frac{${2}}{${3}}"},
	{regexp.MustCompile(`(sqrt)([^{])`), "sqrt{${2}}"},
}

// normalMath returns the normal form of an answer.
func normalMath(s string) string {
	s = s[strings.LastIndex(s, "=")+1:]
	for i := 0; i < len(mathWords); i += 2 {
		s = strings.ReplaceAll(s, mathWords[i], mathWords[i+1])
	}
	for _, unit := range mathUnits {
		s = strings.ReplaceAll(s, unit, "")
	}
	for _, f := range mathForms {
		s = f.from.ReplaceAllString(s, f.to)
	}
	s = strings.ReplaceAll(s, "$", "")
	if number := strings.ReplaceAll(s, ",", ""); number != "" && strings.IndexFunc(number, func(r rune) bool { return !unicode.IsDigit(r) }) < 0 {
		return number
	}
	return s
}

// listReturned returns the rows that a Python function returns if all that it does is to return a
// list: source is the text of its file.
func listReturned(source, function string) ([]*ordered.Object, error) {
	begin := regexp.MustCompile(`(?m)^def ` + regexp.QuoteMeta(function) + `\(\)[^\n]*:\n\s+return \[`).FindStringIndex(source)
	if begin == nil {
		return nil, unsupportedFunction(function)
	}
	p := literalParser{rest: source[begin[1]-1:]}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	var rows []*ordered.Object
	for _, each := range v.([]ordered.Value) { //nolint:forcetypeassert // the text begins with a bracket
		row, ok := each.(*ordered.Object)
		if !ok {
			return nil, errors.New("an element of the list is not a row")
		}
		rows = append(rows, row)
	}
	return rows, nil
}
