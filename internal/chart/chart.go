// Package chart draws bars, points and lines between two axes, as SVG elements of HTML pages.
// Colours are values of CSS, such as var(--ink), so that the page's style sheet sets them; the page
// defines --muted for texts and --grid for lines.
package chart

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"unicode/utf8"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

// Chart is a chart. The positions of its parts are values on its axes.
type Chart struct {
	Width, Height float64 // in CSS pixels
	Label         string  // description for screen readers
	X, Y          Axis
	Bars          []Bar
	Points        []Point // connected by a line in this order
	Marks         []Mark
}

// Axis is the range of an axis.
type Axis struct {
	Low, High float64
	Title     string
	Ticks     []Tick
}

// Tick is a labelled position on an axis.
type Tick struct {
	At   float64
	Text string
}

// Bar is a bar from 0 to Value.
type Bar struct {
	From, To, Value float64
	Color           string
	Title           string // text that browsers show when the pointer is on the bar
}

// Point is a value with its interval.
type Point struct {
	X, Y, Radius float64
	Low, High    float64 // ends of the interval; equal for none
	Color        string
	Title        string // text that browsers show when the pointer is on the point
}

// Mark is a text at a dashed line from the top to the bottom.
type Mark struct {
	At   float64
	Text string
	Left bool // the text is to the left of the line
}

// Lengths around the area of the bars and points, in CSS pixels.
const (
	characterWidth = 8 // room for a character of a label
	edge           = 8
	lineHeight     = 18
)

// Left is the x coordinate of the y axis.
func (c *Chart) Left() float64 {
	longest := 0
	for _, t := range c.Y.Ticks {
		longest = max(longest, utf8.RuneCountInString(t.Text))
	}
	return float64(edge+characterWidth*longest) + c.Y.room()
}

// Right is the x coordinate at which the x axis ends.
func (c *Chart) Right() float64 { return c.Width - edge }

// Bottom is the y coordinate of the x axis.
func (c *Chart) Bottom() float64 { return c.Height - lineHeight - 6 - c.X.room() }

// room is the height of the axis' title.
func (a *Axis) room() float64 {
	if a.Title == "" {
		return 0
	}
	return lineHeight
}

// AtX returns the x coordinate of a value.
func (c *Chart) AtX(v float64) float64 {
	return rounded(c.Left() + (v-c.X.Low)/(c.X.High-c.X.Low)*(c.Right()-c.Left()))
}

// Top is the y coordinate at which the y axis ends. The texts of marks are above it.
func (c *Chart) Top() float64 {
	if len(c.Marks) > 0 {
		return edge + lineHeight
	}
	return edge
}

// AtY returns the y coordinate of a value.
func (c *Chart) AtY(v float64) float64 {
	return rounded(c.Bottom() - (v-c.Y.Low)/(c.Y.High-c.Y.Low)*(c.Bottom()-c.Top()))
}

// rounded rounds to 1/100 pixel, so that the text of the element stays short.
func rounded(v float64) float64 { return math.Round(100*v) / 100 }

// Anchor returns how the label of the x axis at a value is aligned: labels at the ends of the axis
// do not reach over them.
func (c *Chart) Anchor(v float64) string {
	switch v {
	case c.X.Low:
		return "start"
	case c.X.High:
		return "end"
	}
	return "middle"
}

//go:embed chart.svg
var text string

var drawing = template.Must(template.New("chart").Funcs(template.FuncMap{
	"add":    func(a, b float64) float64 { return a + b },
	"sub":    func(a, b float64) float64 { return a - b },
	"round":  rounded,
	"left":   (*Chart).Left,
	"right":  (*Chart).Right,
	"bottom": (*Chart).Bottom,
	"atX":    (*Chart).AtX,
	"atY":    (*Chart).AtY,
	"anchor": (*Chart).Anchor,
}).Parse(text))

// SVG returns the chart as an element of an HTML page.
func (c *Chart) SVG() (template.HTML, error) {
	var b bytes.Buffer
	if err := drawing.Execute(&b, c); err != nil {
		return "", fmt.Errorf("draw a chart: %w", err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // the template escapes all texts
}

// RoundUp returns the smallest number not below v that is 1, 2 or 5 times a power of ten, such as
// 200 for 130. It returns 1 if v is 0.
func RoundUp(v float64) float64 {
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

// Ticks returns two to five labelled ticks for an axis: multiples of 1, 2 or 5 times a power of
// ten.
func Ticks(low, high float64) []Tick {
	step := RoundUp((high - low) / 4.5)
	digits := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	var ticks []Tick
	for v := math.Ceil(low/step) * step; v <= high+step*1e-9; v += step {
		ticks = append(ticks, Tick{v, fmt.Sprintf("%.*f", digits, v+0)})
	}
	return ticks
}
