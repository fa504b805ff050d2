package model

import "github.com/ingot-run/ingot/engine/gguf"

// Groups divides a model's layers into groups of at most Layers layers. The layers of a group share
// pages of the cache. Layers with a window are in separate groups. A page of such a group can be
// freed once it is before the window.
type Groups struct {
	Layers  int // number of layers whose keys and values a page holds
	Full    int // number of groups of layers that attend to all positions
	Sliding int // number of groups of layers that attend to a window; their page tables follow those of the full groups
	Window  int // length of the window in positions
}

// Groups returns the groups of a model that is loaded with the given limits.
func (c Config) Groups(lim Limits) Groups {
	layers := max(c.CachedLayers(), 1)
	full := layers - c.Sliding
	if !lim.FreeWindows || c.Sliding == 0 || full == 0 || c.DraftLayers > 0 || lim.Context <= c.Window {
		return Groups{Layers: layers, Full: 1}
	}
	// Larger groups mean fewer page tables. But the last group of each kind may have fewer layers
	// than the others, which wastes memory.
	for n := min(full, c.Sliding); ; n-- {
		g := Groups{Layers: n, Full: (full + n - 1) / n, Sliding: (c.Sliding + n - 1) / n, Window: c.Window}
		if n == 1 || maxWaste*((g.Full+g.Sliding)*n-layers) <= layers {
			return g
		}
	}
}

// maxWaste limits the memory that groups waste: at most 1/maxWaste of the memory of all layers.
const maxWaste = 10

// SlotBytes returns the bytes of one position in one group of layers, with keys and values of type
// t.
func (g Groups) SlotBytes(c Config, t gguf.Type) (int, error) {
	all, err := c.PositionBytes(t)
	return all / max(c.CachedLayers(), 1) * g.Layers, err
}

// place returns the number under which the cache stores a layer. before is the number of earlier
// layers of its kind.
func (g Groups) place(layer, before int, sliding bool) int {
	switch {
	case g.Sliding == 0:
		return layer
	case sliding:
		return g.Full*g.Layers + before
	}
	return before
}
