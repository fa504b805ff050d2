package eval_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/eval/task"
)

// Advice counts all comparisons of a gate, and names the tasks with too few rows.
func TestAdvice(t *testing.T) {
	t.Parallel()
	set := func(name string, rows int, margin float64, change func(*task.Task)) *eval.Set {
		s := &eval.Set{Task: &task.Task{Name: name, Type: task.MultipleChoice, Margin: margin, Metrics: make([]task.Metric, 2)}, Items: make([]eval.Item, rows)}
		if change != nil {
			change(s.Task)
		}
		return s
	}
	const needs = "a gate with a margin of %v needs about %d rows of each task to pass a model that is as good, if 10 %% of the rows change from run to run"
	generated := func(t *task.Task) { t.Type, t.Filters = task.Generate, make([]task.Pipeline, 3) }
	require.Equal(t, []string{fmt.Sprintf(needs, 0.03, 932) + ": few has 931"}, eval.Advice([]*eval.Set{set("few", 931, 0.03, nil)}))
	require.Equal(t, []string{fmt.Sprintf(needs, 0.03, 932)}, eval.Advice([]*eval.Set{set("enough", 932, 0.03, nil)}))
	require.Equal(t, []string{
		"a gate with a margin of 0 passes only answers that are all the same",
		fmt.Sprintf(needs, 0.03, statistics.RowsToDecide(0.03, 10)) + ": b has 5",
	}, eval.Advice([]*eval.Set{set("b", 5, 0.03, generated), set("a", 5, 0, nil), set("c", 9999, 0.03, nil)}))
	require.Empty(t, eval.Advice([]*eval.Set{set("text", 5, 0.03, func(t *task.Task) { t.Type = task.Perplexity })}))
	var many []*eval.Set
	for i := range 9 {
		many = append(many, set(fmt.Sprint("t", i), 5, 0.03, nil))
	}
	require.Regexp(t, ": t0 has 5, .*, t5 has 5$", eval.Advice(many[:6])[0])
	require.Regexp(t, ", t4 has 5, 2 other tasks have fewer too$", eval.Advice(many[:7])[0])
	require.Contains(t, eval.Advice(many)[0], ": t0 has 5, t1 has 5, t2 has 5, t3 has 5, t4 has 5, 4 other tasks have fewer too")
}
