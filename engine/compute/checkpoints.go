package compute

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Checkpoints prints selected points of the forward pass, and records which points the forward pass
// has. It is safe for concurrent use.
type Checkpoints struct {
	all    bool
	points []point

	mu     sync.Mutex
	layers []int    // ascending
	stages []string // ascending
	seen   map[point]bool
}

type point struct {
	layer int
	stage string // empty for all stages of the layer
}

// ParseCheckpoints reads a selection of points: "all", or a list such as "0,3:attn_out".
func ParseCheckpoints(s string) (*Checkpoints, error) {
	c := &Checkpoints{seen: map[point]bool{}}
	if s == "all" {
		c.all = true
		return c, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		layer, stage, named := strings.Cut(part, ":")
		n, err := strconv.Atoi(layer)
		if err != nil || named && stage == "" {
			return nil, fmt.Errorf("%q is not a point: use all, or a list such as 0,3:attn_out", part)
		}
		c.points = append(c.points, point{n, stage})
	}
	return c, nil
}

// Print records a point, and writes it to w if it is selected.
func (c *Checkpoints) Print(w io.Writer, p Checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	this, layer := point{p.Layer, p.Stage}, point{p.Layer, ""}
	c.seen[this], c.seen[layer] = true, true
	if i, ok := slices.BinarySearch(c.layers, p.Layer); !ok {
		c.layers = slices.Insert(c.layers, i, p.Layer)
	}
	if i, ok := slices.BinarySearch(c.stages, p.Stage); !ok {
		c.stages = slices.Insert(c.stages, i, p.Stage)
	}
	if c.all || slices.Contains(c.points, layer) || slices.Contains(c.points, this) {
		fmt.Fprintf(w, "layer %d %s row %d sum %.6g norm %.6g\n", p.Layer, p.Stage, p.Row, p.Sum, p.Norm) //nolint:errcheck // only for debugging
	}
}

// Missing returns an error if the forward pass did not reach a selected point. It returns nil if
// there was no forward pass.
func (c *Checkpoints) Missing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.layers) == 0 {
		return nil
	}
	for _, p := range c.points {
		if !c.seen[p] {
			return fmt.Errorf("there is no point %s; the layers are %d to %d, and their stages are among %s",
				strings.TrimSuffix(fmt.Sprintf("%d:%s", p.layer, p.stage), ":"), c.layers[0], c.layers[len(c.layers)-1], strings.Join(c.stages, ", "))
		}
	}
	return nil
}
