package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/internal/chart"
)

// compared is a row of the table that compares candidate and baseline. Its bar shows the interval,
// on a scale that all rows share.
type compared struct {
	eval.Compared
	Zero, From, To, At, MarginAt float64 // positions on the bar in percent: no difference, ends of the interval, the difference, the margin
}

// barScale returns the difference that the ends of the bars stand for: the largest absolute value
// of all intervals and margins, rounded up.
func barScale(list []eval.Compared) float64 {
	largest := 0.001
	for i := range list {
		largest = max(largest, math.Abs(list[i].Low), math.Abs(list[i].High), list[i].Margin)
	}
	return chart.RoundUp(largest)
}

func newCompared(c eval.Compared, scale float64) compared {
	place := func(v float64) float64 { return 50 + 50*max(-1, min(1, v/scale)) }
	return compared{c, place(0), place(c.Low), place(c.High), place(c.Mean), place(-c.Margin)}
}

// width is the width of the interval on the bar, in percent.
func (c compared) width() float64 { return max(0.5, c.To-c.From) }

type changed struct {
	Task   string
	Total  int    // number of changed rows
	Metric string // metric that decides whether a row is lost or won
	Lost   int
	Won    int
	Rows   []change
	Left   int // rows that are not shown
}

type change struct {
	eval.Change
	Kind string // lost, won or other
}

const maxShown = 25

// changes sets the changed rows of all tasks, lost rows first.
func (c *content) changes(base, cand string, list []eval.Compared) error {
	metrics := map[string]string{} // first metric of each task
	for _, each := range list {
		metrics[each.Task] = cmp.Or(metrics[each.Task], each.Metric)
	}
	for _, task := range slices.Sorted(maps.Keys(metrics)) {
		all, err := eval.Changes(task, base, cand)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			continue
		}
		group := changed{Task: task, Total: len(all), Metric: metrics[task]}
		for _, each := range all {
			one := change{each, kindOf(each.Scores, group.Metric)}
			switch one.Kind {
			case "lost":
				group.Lost++
			case "won":
				group.Won++
			}
			group.Rows = append(group.Rows, one)
		}
		kinds := []string{"lost", "won", "other"}
		slices.SortStableFunc(group.Rows, func(a, b change) int {
			return cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind))
		})
		group.Left = max(0, len(group.Rows)-maxShown)
		group.Rows = group.Rows[:min(len(group.Rows), maxShown)]
		c.Changes = append(c.Changes, group)
		c.ChangedAll += group.Total
	}
	return nil
}

// kindOf returns "won" if a row's score by a metric has risen, "lost" if it has fallen, otherwise
// "other". Higher scores are better, including log-probabilities.
func kindOf(scores [2]map[string]float64, metric string) string {
	before, hasBefore := scores[0][metric]
	after, hasAfter := scores[1][metric]
	switch {
	case !hasBefore || !hasAfter || cmp.Compare(before, after) == 0:
		return "other"
	case cmp.Less(after, before): // NaN is less than any number
		return "lost"
	}
	return "won"
}

// heading returns the heading of the row on the page. Rows are counted from 1, as in error
// messages.
func (c change) heading() string { return fmt.Sprintf("row %d", c.Row+1) }
