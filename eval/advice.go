package eval

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// Advice describes in a line for each margin how many rows a gate needs to decide about these tasks
// and which tasks have fewer. Tasks are left out if they only have perplexities, which differ
// little between runs.
func Advice(sets []*Set) []string {
	byMargin := map[float64][]*Set{}
	comparisons := 0
	for _, s := range sets {
		if s.Type != task.Perplexity {
			byMargin[s.Margin] = append(byMargin[s.Margin], s)
			comparisons += len(s.Metrics) * max(1, len(s.Filters))
		}
	}
	var list []string
	for _, margin := range slices.Sorted(maps.Keys(byMargin)) {
		list = append(list, advice(byMargin[margin], margin, comparisons))
	}
	return list
}

func advice(sets []*Set, margin float64, comparisons int) string {
	if margin == 0 {
		return "a gate with a margin of 0 passes only answers that are all the same"
	}
	rows := statistics.RowsToDecide(margin, comparisons)
	text := fmt.Sprintf("a gate with a margin of %v needs about %d rows of each task to pass a model that is as good, if %v %% of the rows change from run to run",
		margin, rows, 100*statistics.UsualChange)
	var fewer []string
	for _, s := range sets {
		if len(s.Items) < rows {
			fewer = append(fewer, fmt.Sprintf("%s has %d", textfmt.Printable(s.Name), len(s.Items)))
		}
	}
	const shown = 5
	if n := len(fewer) - shown; n > 1 {
		fewer = append(fewer[:shown], fmt.Sprintf("%d other tasks have fewer too", n))
	}
	if fewer != nil {
		text += ": " + strings.Join(fewer, ", ")
	}
	return text
}
