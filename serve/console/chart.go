package console

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The size of a chart, in units of its SVG.
const (
	chartWidth  = 720
	chartHeight = 200
	chartLeft   = 48 // room for the labels of the y axis
	chartBottom = 24 // room for the labels of the x axis
	chartTop    = 8
)

// Chart is a bar chart of a speed over time.
type Chart struct {
	Width, Height int
	Bars          []Bar
	Lines         []Line // horizontal lines with the values of the y axis
	Labels        []Label
	Now, Highest  float64 // the last value and the highest one
	Empty         bool    // all values are 0
}

// Bar is a bar of a chart.
type Bar struct {
	X, Y, Width, Height float64
	Text                string // text that browsers show when the pointer is on the bar
}

// Line is a horizontal line across a chart, with its value on the y axis.
type Line struct {
	X1, X2, Y float64
	Value     float64
}

// Label is a text below the x axis.
type Label struct {
	X      float64
	Y      int
	Anchor string
	Text   string
}

// NewChart returns a chart of speeds in tokens per second, one value per interval. The last value belongs to the current interval.
func NewChart(values []float64, interval time.Duration) Chart {
	c := Chart{Width: chartWidth, Height: chartHeight}
	if len(values) == 0 {
		c.Empty = true
		return c
	}
	c.Now, c.Highest = values[len(values)-1], slices.Max(values)
	c.Empty = c.Highest == 0
	top := roundUp(c.Highest)
	bottom := float64(chartHeight - chartBottom)
	scale := (bottom - chartTop) / top
	step := float64(chartWidth-chartLeft) / float64(len(values))
	for i, v := range values {
		c.Bars = append(c.Bars, Bar{
			X: chartLeft + float64(i)*step + 1, Width: step - 2,
			Y: bottom - v*scale, Height: v * scale,
			Text: fmt.Sprintf("%s: %s tokens/s", before(time.Duration(len(values)-1-i)*interval), figure(v)),
		})
	}
	for _, v := range []float64{0, top / 2, top} {
		c.Lines = append(c.Lines, Line{X1: chartLeft, X2: chartWidth, Y: bottom - v*scale, Value: v})
	}
	span := time.Duration(len(values)) * interval
	c.Labels = []Label{
		{X: chartLeft, Y: chartHeight - 6, Anchor: "start", Text: before(span)},
		{X: (chartLeft + chartWidth) / 2, Y: chartHeight - 6, Anchor: "middle", Text: before(span / 2)},
		{X: chartWidth, Y: chartHeight - 6, Anchor: "end", Text: "now"},
	}
	return c
}

func before(d time.Duration) string {
	if d == 0 {
		return "now"
	}
	return fmt.Sprintf("%d min ago", int(d.Minutes()))
}

// roundUp returns the smallest number not below v that is 1, 2 or 5 times a power of ten, such as 200 for 130. It returns 1 if v is 0.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power {
			return m * power
		}
	}
	return 10 * power
}
