package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoundUp(t *testing.T) {
	t.Parallel()
	for v, wanted := range map[float64]float64{0: 1, 0.3: 0.5, 1: 1, 1.1: 2, 4: 5, 7: 10, 130: 200, 501: 1000} {
		require.InDelta(t, wanted, RoundUp(v), 1e-9, v)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		low, high float64
		texts     string
	}{
		{0, 100, "0 50 100"}, {0, 4, "0 1 2 3 4"}, {0.7, 0.75, "0.70 0.72 0.74"}, {-0.3, 0.2, "-0.2 0.0 0.2"}, {3, 4, "3.0 3.5 4.0"},
	} {
		var texts []string
		for _, tick := range Ticks(c.low, c.high) {
			texts = append(texts, tick.Text)
		}
		require.Equal(t, c.texts, strings.Join(texts, " "))
	}
}

// TestBars checks that bars stand on the x axis, that their heights are proportional to their
// values, and that they end below the top.
func TestBars(t *testing.T) {
	t.Parallel()
	c := Chart{Width: 720, Height: 200, X: Axis{High: 3}, Y: Axis{High: 200, Ticks: Ticks(0, 200)}, Bars: []Bar{{To: 1}, {From: 1, To: 2, Value: 130}, {From: 2, To: 3, Value: 65}}}
	tall, low := c.Bottom()-c.AtY(130), c.Bottom()-c.AtY(65)
	require.InDelta(t, tall, 2*low, 0.03)
	require.InDelta(t, c.Bottom(), c.AtY(0), 1e-9)
	require.GreaterOrEqual(t, c.AtY(200), float64(edge))
	require.InDelta(t, c.Left(), c.AtX(0), 1e-9)
	require.InDelta(t, c.Right(), c.AtX(3), 1e-9)
	text, err := c.SVG()
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(text), "<rect "))
}

// TestSVG checks that a chart with all parts is well-formed, and that texts do not become markup.
func TestSVG(t *testing.T) {
	t.Parallel()
	const nasty = `<b>"&`
	c := Chart{
		Width: 380, Height: 210, Label: nasty, X: Axis{Low: -1, High: 2, Title: nasty, Ticks: []Tick{{-1, nasty}, {0, "a"}, {2, "b"}}},
		Y:      Axis{Low: 0.5, High: 1, Title: nasty, Ticks: Ticks(0.5, 1)},
		Points: []Point{{Y: 0.7, Low: 0.6, High: 0.8, Radius: 3, Color: "var(--ink)", Title: nasty}, {X: 1, Y: 0.8, Radius: 3, Color: "var(--ink)"}},
		Marks:  []Mark{{At: 0.5, Text: nasty}, {At: 1, Text: "right", Left: true}},
		Bars:   []Bar{{From: 1, To: 2, Value: 0.9, Title: nasty}},
	}
	element, err := c.SVG()
	require.NoError(t, err)
	require.NotContains(t, string(element), nasty)
	require.NotContains(t, string(element), "ZgotmplZ")
	require.Equal(t, 1, strings.Count(string(element), "<path "), "one point has an interval")
	for dec := xml.NewDecoder(strings.NewReader(string(element))); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
}
