package model

import (
	"slices"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Groups divides a model's layers into groups of at most Layers layers. The layers of a group share
// pages of the cache. Layers with a window are in separate groups. A page of such a group can be
// freed once it is before the window.
type Groups struct {
	Layers  int   // number of layers whose keys and values a page holds; see compute.CacheShape
	Full    int   // number of groups whose pages are not freed: those of layers that attend to all positions, and further ones in windows
	Sliding int   // number of groups of layers that attend to a window; their page tables follow those of the full groups
	Window  int   // length of the window in positions
	Parts   []int // compute.CacheShape.Parts; nil if all layers store equally many values
}

// Groups returns the groups of a model that is loaded with the given limits. Layers that store
// different numbers of values are in separate groups in any case.
func (c Config) Groups(lim Limits) Groups {
	full, sliding := c.stored()
	freed := lim.FreeWindows && sliding > 0 && full > 0 && c.DraftLayers == 0 && lim.Context > c.Window
	ofFull, ofSliding := max(c.FullParts, 1), max(c.SlidingParts, 1)
	if !freed && ofFull == ofSliding {
		return Groups{Layers: full + sliding, Full: 1}
	}
	// Larger groups mean fewer page tables. But the last group of each kind may have fewer layers
	// than the others, which wastes memory.
	up := func(n, by int) int { return (n + by - 1) / by }
	for n := min(up(full, ofFull), up(sliding, ofSliding)); ; n-- {
		g := Groups{Layers: n, Full: up(full, n*ofFull), Sliding: up(sliding, n*ofSliding), Window: c.Window}
		// Memory is counted in layers of the cache, times the numbers of parts.
		used, each := full*ofSliding+sliding*ofFull, ofFull*ofSliding
		if n > 1 && maxWaste*((g.Full+g.Sliding)*n*each-used) > used {
			continue
		}
		if ofFull != ofSliding {
			g.Parts = append(slices.Repeat([]int{ofFull}, g.Full), slices.Repeat([]int{ofSliding}, g.Sliding)...)
		}
		if !freed {
			g.Full, g.Sliding, g.Window = g.Full+g.Sliding, 0, 0
		}
		return g
	}
}

// maxWaste limits the memory that groups waste: at most 1/maxWaste of the memory of all layers.
const maxWaste = 10

// SlotBytes returns the bytes of one position in one group of layers, with keys and values of type
// t.
func (g Groups) SlotBytes(c Config, t gguf.Type) (int, error) {
	if c.Assistant {
		return 0, nil
	}
	all, err := c.PositionBytes(t)
	full, sliding := c.stored()
	ofFull, ofSliding := max(c.FullParts, 1), max(c.SlidingParts, 1)
	return all / (full*ofSliding + sliding*ofFull) * ofFull * ofSliding * g.Layers, err
}

// place returns the number under which the cache stores a layer. before is the number of earlier
// layers of its kind.
func (g Groups) place(layer, before int, sliding bool) int {
	if g.Parts != nil {
		first := 0
		if sliding {
			first = slices.IndexFunc(g.Parts, func(parts int) bool { return parts != g.Parts[0] })
		}
		n := g.Layers * g.Parts[first]
		return (first+before/n)*g.Layers*slices.Max(g.Parts) + before%n
	}
	switch {
	case g.Sliding == 0:
		return layer
	case sliding:
		return g.Full*g.Layers + before
	}
	return before
}
