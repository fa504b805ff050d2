package task

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Rubric defines how a second model, the judge, scores the answers of a Judge task.
type Rubric struct {
	Text      string // Jinja template of the judge's prompt
	MaxTokens int    // maximum tokens of the judge's reply

	template  *jinja.Template
	score     *regexp2.Regexp
	low, high float64
}

// defaultScore is the regular expression that finds the score in a judge's reply, if the task sets
// none.
const defaultScore = `(?i)score\W{0,6}(-?\d+(?:\.\d+)?)`

func (r *reader) judge(n *yaml.Node) error {
	c := struct {
		Rubric    string    `yaml:"rubric"`
		Score     string    `yaml:"score"`
		Range     []float64 `yaml:"range"`
		MaxTokens int       `yaml:"max_gen_toks"`

		Unknown map[string]any `yaml:",inline"`
	}{Score: defaultScore, Range: []float64{1, 10}, MaxTokens: 512}
	if err := n.Decode(&c); err != nil {
		return err
	}
	if len(c.Unknown) > 0 {
		return unsupported("the key %q", slices.Sorted(maps.Keys(c.Unknown))[0])
	}
	if c.Rubric == "" {
		return errors.New(`"rubric", the prompt of the judge, is missing`)
	}
	if len(c.Range) != 2 || !(c.Range[1] > c.Range[0]) || math.IsInf(c.Range[1]-c.Range[0], 0) || c.MaxTokens < 1 {
		return errors.New("range must be [lowest score, highest score], and max_gen_toks at least 1")
	}
	template, err := jinja.ParseStrict("rubric", "rubrics", strings.TrimSuffix(c.Rubric, "\n"))
	if err != nil {
		return fmt.Errorf("rubric: %w", err)
	}
	score, err := compile(c.Score, regexp2.None)
	if err != nil {
		return fmt.Errorf("score: %w", err)
	}
	r.task.Rubric = &Rubric{Text: c.Rubric, MaxTokens: c.MaxTokens, template: template, score: score, low: c.Range[0], high: c.Range[1]}
	return nil
}

// Prompt returns the judge's prompt. The rubric's template can use the columns of the row and three
// more variables: prompt (what was asked), answer (the answer to judge) and target (the expected
// answer, if the task has one).
func (r *Rubric) Prompt(row *ordered.Object, p *Prompt, answer string) (string, error) {
	all := row.Clone()
	all.Set("prompt", p.Context)
	all.Set("answer", answer)
	target := ""
	if len(p.Targets) > 0 {
		target = p.Targets[0]
	}
	all.Set("target", target)
	return r.template.Render(all, time.Time{})
}

// Score reads the score in a judge's reply and scales it from the rubric's range to [0, 1]. If the
// expression matches several times, the last match counts. ok is false if the reply has no score,
// or one outside the range.
func (r *Rubric) Score(judged string) (score float64, ok bool) {
	list := matches(r.score, judged)
	if len(list) == 0 {
		return 0, false
	}
	v, err := strconv.ParseFloat(list[len(list)-1], 64)
	if err != nil || !(v >= r.low && v <= r.high) { // NaN is neither
		return 0, false
	}
	return (v - r.low) / (r.high - r.low), true
}
