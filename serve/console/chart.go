package console

import (
	"fmt"
	"slices"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"github.com/ingot-run/ingot/internal/chart"
)

// Throughput is a speed over time, in generated tokens per second.
type Throughput struct {
	speeds       []float64
	interval     time.Duration
	Now, Highest float64 // the speed now and the highest one
}

// NewThroughput returns speeds, one value per interval, of which there is at least one. The last
// value belongs to the current interval, whose mean is too low until the interval has passed; now
// is the speed now.
func NewThroughput(speeds []float64, interval time.Duration, now float64) Throughput {
	return Throughput{speeds, interval, now, max(now, slices.Max(speeds))}
}

// Chart draws the speeds.
func (t Throughput) Chart() (template.HTML, error) {
	c := t.chart()
	return c.SVG()
}

func (t Throughput) chart() chart.Chart {
	const gap = 0.1 // on each side of a bar, as a share of its interval
	n, top := len(t.speeds), chart.RoundUp(t.Highest)
	c := chart.Chart{
		Width: 720, Height: 200,
		Label: fmt.Sprintf("Generated tokens per second in the last hour: now %s, at most %s", figure(t.Now), figure(t.Highest)),
		X:     chart.Axis{High: float64(n)},
		Y:     chart.Axis{High: top},
	}
	for i, v := range t.speeds {
		if v == 0 {
			continue // a browser without graphics lists the titles
		}
		c.Bars = append(c.Bars, chart.Bar{
			From: float64(i) + gap, To: float64(i+1) - gap, Value: v, Color: "var(--bar)",
			Title: fmt.Sprintf("%s: %s tokens/s", before(time.Duration(n-1-i)*t.interval), figure(v)),
		})
	}
	for _, v := range []float64{0, top / 2, top} {
		c.Y.Ticks = append(c.Y.Ticks, chart.Tick{At: v, Text: figure(v)})
	}
	span := time.Duration(n) * t.interval
	c.X.Ticks = []chart.Tick{{At: 0, Text: before(span)}, {At: c.X.High / 2, Text: before(span / 2)}, {At: c.X.High, Text: "now"}}
	return c
}

func before(d time.Duration) string {
	if d == 0 {
		return "now"
	}
	return fmt.Sprintf("%d min ago", int(d.Minutes()))
}
