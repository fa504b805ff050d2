package report

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/internal/chart"
)

// Natural size of a chart in CSS pixels. One chart fits on a phone; wider pages show several charts
// side by side.
const (
	chartWidth  = 380
	chartHeight = 210
)

// Colours of the page's style sheet.
const (
	ink       = "var(--ink)"
	baseline  = "var(--baseline)"
	candidate = "var(--candidate)"
)

type point struct {
	value float64
	statistics.Interval
	name   string // of the run
	role   string // see content.role
	change string // settings that differ from those of the run before; empty if none does
}

const (
	// roomyRuns is the maximum number of runs in a chart that leaves room for the text of a mark
	// between two runs.
	roomyRuns = 7
	// maxNames is the number of run names that fit under a chart.
	maxNames = 5
)

// history draws the scores of runs with their intervals, in the order of points, and marks changes
// of settings. names are the labels of the runs on the axis: as many as fit are shown, and always
// the last one. The axis does not go beyond the possible values.
func history(points []point, names []string, possible statistics.Interval, label string) chart.Chart {
	c := chart.Chart{Width: chartWidth, Height: chartHeight, Label: label}
	low, high := math.Inf(1), math.Inf(-1)
	for i, pt := range points {
		low, high = min(low, pt.Low), max(high, pt.High)
		dot := chart.Point{X: float64(i), Y: pt.value, Low: pt.Low, High: pt.High, Color: ink, Radius: 3, Title: fmt.Sprintf("%s: %.4f", pt.name, pt.value)}
		if pt.role != "" {
			dot.Color, dot.Radius = "var(--"+pt.role+")", 5
		}
		c.Points = append(c.Points, dot)
		if pt.change != "" {
			// To the right of the last of many runs, there is no room for a text.
			c.Marks = append(c.Marks, chart.Mark{At: float64(i) - 0.5, Text: pt.change, Left: i == len(points)-1 && i >= roomyRuns})
		}
	}
	room := max(0.12*(high-low), 1e-3*math.Abs(high), 1e-6)
	c.Y = chart.Axis{Low: max(low-room, min(low, possible.Low)), High: min(high+room, max(high, possible.High))}
	c.Y.Ticks = chart.Ticks(c.Y.Low, c.Y.High)
	c.X = chart.Axis{Low: -0.5, High: float64(len(points)) - 0.5}
	for i := len(names) - 1; i >= 0; i -= (len(names) + maxNames - 1) / maxNames {
		c.X.Ticks = append(c.X.Ticks, chart.Tick{At: float64(i), Text: names[i]})
	}
	return c
}

const bins = 16

// distribution draws histograms of the values of two runs. second may be empty. Values above the
// 99th percentile count in the last bar.
func distribution(first, second []float64, unit, label string) chart.Chart {
	all := append(append([]float64{}, first...), second...)
	low, high := quantile(all, 0), quantile(all, 0.99)
	if high <= low {
		high = low + 1
	}
	width := (high - low) / bins
	bars, ticks := bins, chart.Ticks(low, high)
	if unit == "tokens" { // tokens are whole numbers, so every bar gets the same number of possible values, and stands around them
		width = math.Ceil(max(1, width))
		bars = min(bins, int((high-low)/width)+1)
		low -= 0.5
	}
	end, highest := low+float64(bars)*width, 0.0
	c := chart.Chart{Width: chartWidth, Height: chartHeight, Label: label, X: chart.Axis{Low: low, High: end, Title: unit, Ticks: ticks}}
	for i, values := range [][]float64{first, second} {
		var shares [bins]float64
		for _, v := range values {
			shares[min(bars-1, max(0, int((v-low)/width)))] += 100 / float64(len(values))
		}
		half, from := width*0.42, low+0.06*width
		if len(second) == 0 {
			half = 2 * half
		} else if i == 1 {
			from += half
		}
		for k, share := range shares {
			if share > 0 {
				left := from + float64(k)*width
				c.Bars = append(c.Bars, chart.Bar{From: left, To: left + half, Value: share, Color: []string{baseline, candidate}[i]})
			}
			highest = max(highest, share)
		}
	}
	c.Y = chart.Axis{High: highest, Title: "% of rows", Ticks: chart.Ticks(0, highest)}
	return c
}
