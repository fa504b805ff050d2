package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Natural size of a chart in CSS pixels. One chart fits on a phone; wider pages show several charts side by side.
const (
	chartWidth  = 380
	chartHeight = 210
)

// Charts are drawn in these placeholder colours. The replacer below turns each of them into a variable of the page's style sheet. The value
// of a variable depends on the theme (light or dark).
var (
	ink       = color.RGBA{R: 1, A: 255}
	muted     = color.RGBA{R: 2, A: 255}
	grid      = color.RGBA{R: 3, A: 255}
	baseline  = color.RGBA{R: 4, A: 255}
	candidate = color.RGBA{R: 5, A: 255}
)

var variables = strings.NewReplacer(
	"#010000", "var(--ink)", "#020000", "var(--muted)", "#030000", "var(--grid)", "#040000", "var(--baseline)", "#050000", "var(--candidate)",
	// Plots are laid out with Liberation Sans, whose characters are as wide as Arial's.
	"font-family:Liberation Sans", "font-family:Arial,Helvetica,'Liberation Sans',sans-serif",
	"&#34;", "",
)

// newPlot makes a plot without content, in the page's style.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	text := sans(11)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Color, a.Tick.Color = muted, muted
		a.Width, a.Tick.Width, a.Tick.Length = vg.Points(0.75), vg.Points(0.75), vg.Points(3)
		a.Label.TextStyle.Color, a.Label.TextStyle.Font = muted, text
		a.Tick.Label.Color, a.Tick.Label.Font = muted, text
	}
	p.Y.Width, p.Y.Tick.Length = 0, 0
	lines := plotter.NewGrid()
	lines.Vertical.Width = 0
	lines.Horizontal.Color, lines.Horizontal.Width, lines.Horizontal.Dashes = grid, vg.Points(0.75), nil
	p.Add(lines)
	return p
}

// sans returns the font of charts in the given size.
func sans(size font.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

var svgSize = regexp.MustCompile(`width="[^"]*" height="[^"]*"`)

// svg draws a plot as an HTML element. label describes the plot for screen readers.
func svg(p *plot.Plot, label string) (template.HTML, error) {
	canvas := vgsvg.New(chartWidth, chartHeight)
	p.Draw(draw.Crop(draw.New(canvas), 2, -8, 2, -6))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", fmt.Errorf("draw a chart: %w", err)
	}
	_, element, ok := strings.Cut(b.String(), "<svg ")
	if !ok {
		return "", fmt.Errorf("draw a chart: the output of the plot library is not SVG: %.40q", b.String())
	}
	first := svgSize.FindString(element)
	element = strings.Replace(element, first, `role="img" aria-label="`+template.HTMLEscapeString(label)+`"`, 1)
	return template.HTML("<svg " + variables.Replace(element)), nil //nolint:gosec // texts in it are escaped by the canvas
}

// point is a score of a run.
type point struct {
	value  float64
	half   float64 // half the width of the value's interval; NaN for none
	marked bool    // the baseline
	last   bool    // the candidate
	change string  // settings that differ from those of the run before; empty if none does
}

// history draws the scores of runs with their intervals, in the order of points, and marks changes of settings. names are the labels of the
// runs on the axis.
func history(points []point, names []string, label string) (template.HTML, error) {
	p := newPlot()
	xy := make(plotter.XYs, len(points))
	bars := intervals{xy, make(plotter.YErrors, len(points))}
	low, high := math.Inf(1), math.Inf(-1)
	for i, pt := range points {
		xy[i] = plotter.XY{X: float64(i), Y: pt.value}
		half := pt.half
		if math.IsNaN(half) {
			half = 0
		}
		bars.YErrors[i].Low, bars.YErrors[i].High = half, half
		low, high = min(low, pt.value-half), max(high, pt.value+half)
	}
	room := max(0.12*(high-low), 1e-3*math.Abs(high), 1e-6)
	p.Y.Min, p.Y.Max = low-room, high+2.2*room
	p.X.Min, p.X.Max = -0.5, float64(len(points))-0.5
	p.X.Tick.Marker, p.Y.Tick.Marker = runTicks(names), fewTicks{}
	for i, pt := range points {
		if pt.change == "" {
			continue
		}
		mark, err := plotter.NewLine(plotter.XYs{{X: float64(i) - 0.5, Y: p.Y.Min}, {X: float64(i) - 0.5, Y: p.Y.Max}})
		if err != nil {
			return "", err
		}
		mark.Color, mark.Width, mark.Dashes = muted, vg.Points(0.75), []vg.Length{2, 2}
		p.Add(mark)
		text, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: float64(i) - 0.5, Y: p.Y.Max}}, Labels: []string{pt.change}})
		if err != nil {
			return "", err
		}
		text.TextStyle[0].Font, text.TextStyle[0].Color, text.TextStyle[0].YAlign = sans(9.5), muted, draw.YTop
		text.Offset = vg.Point{X: 3, Y: -1}
		if i == len(points)-1 && i >= roomyRuns { // no room for the text to the right of the last mark
			text.TextStyle[0].XAlign, text.Offset.X = draw.XRight, -3
		}
		p.Add(text)
	}
	line, err := plotter.NewLine(xy)
	if err != nil {
		return "", err
	}
	line.Color, line.Width = grid, vg.Points(1.5)
	errors, err := plotter.NewYErrorBars(bars)
	if err != nil {
		return "", err
	}
	errors.Color, errors.Width, errors.CapWidth = muted, vg.Points(1), vg.Points(4)
	dots, err := plotter.NewScatter(xy)
	if err != nil {
		return "", err
	}
	dots.GlyphStyleFunc = func(i int) draw.GlyphStyle {
		g := draw.GlyphStyle{Color: ink, Radius: vg.Points(2.6), Shape: draw.CircleGlyph{}}
		switch {
		case points[i].marked:
			g.Color, g.Radius = baseline, vg.Points(4)
		case points[i].last:
			g.Color, g.Radius = candidate, vg.Points(4)
		}
		return g
	}
	p.Add(line, errors, dots)
	return svg(p, label)
}

// intervals are points with error bars, in the form that plotter.NewYErrorBars takes.
type intervals struct {
	plotter.XYs
	plotter.YErrors
}

// runTicks makes the ticks of an axis from the names of runs. It labels as many ticks as fit, and always the last one.
type runTicks []string

// roomyRuns is the maximum number of runs in a chart that leaves room for the text of a mark between two runs.
const roomyRuns = 7

// maxNames is the number of run names that fit under a chart.
const maxNames = 5

// Ticks implements plot.Ticker.
func (names runTicks) Ticks(_, _ float64) []plot.Tick {
	step := (len(names) + maxNames - 1) / maxNames
	var ticks []plot.Tick
	for i := len(names) - 1; i >= 0; i -= max(1, step) {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: names[i]})
	}
	return ticks
}

// fewTicks places about four labelled ticks on an axis.
type fewTicks struct{}

// Ticks implements plot.Ticker.
func (fewTicks) Ticks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*factor) <= 4.5 {
			step *= factor
			break
		}
	}
	digits := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	var ticks []plot.Tick
	for v := math.Ceil(low/step) * step; v <= high+step*1e-9; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.*f", digits, v+0)})
	}
	return ticks
}

// bins is the number of bars per run in a distribution.
const bins = 16

// distribution draws histograms of the values of two runs. second may be empty. Values above the 99th percentile count in the last bar.
func distribution(first, second []float64, unit, label string) (template.HTML, error) {
	all := append(append([]float64{}, first...), second...)
	low, high := quantile(all, 0), quantile(all, 0.99)
	if high <= low {
		high = low + 1
	}
	width := (high - low) / bins
	if unit == "tokens" { // tokens are whole numbers, so every bar gets the same number of possible values
		width = math.Ceil(max(1, width))
	}
	p := newPlot()
	p.Y.Min = 0
	p.X.Label.Text = unit
	p.X.Tick.Marker, p.Y.Tick.Marker = fewTicks{}, fewTicks{}
	for i, values := range [][]float64{first, second} {
		if len(values) == 0 {
			continue
		}
		shares := make([]float64, bins)
		for _, v := range values {
			shares[min(bins-1, max(0, int((v-low)/width)))] += 100 / float64(len(values))
		}
		half, from := width*0.42, 0.06*width
		if len(second) == 0 {
			half = 2 * half
		} else if i == 1 {
			from += half
		}
		for k, share := range shares {
			if share == 0 {
				continue
			}
			left := low + float64(k)*width + from
			bar, err := plotter.NewPolygon(plotter.XYs{{X: left}, {X: left, Y: share}, {X: left + half, Y: share}, {X: left + half}})
			if err != nil {
				return "", err
			}
			bar.Color, bar.Width = []color.RGBA{baseline, candidate}[i], 0
			p.Add(bar)
		}
	}
	p.X.Min, p.X.Max = low, low+bins*width
	p.Y.Label.Text = "% of rows"
	return svg(p, label)
}
