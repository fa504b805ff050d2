package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ingot-run/ingot/engine/compute"
)

// checkpoints selects points of the forward pass for printing, and records which points the forward pass has.
type checkpoints struct {
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

// parseCheckpoints reads "all", or a list such as "0,3:attn_out".
func parseCheckpoints(s string) (*checkpoints, error) {
	c := &checkpoints{seen: map[point]bool{}}
	if s == "all" {
		c.all = true
		return c, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		layer, stage, named := strings.Cut(part, ":")
		n, err := strconv.Atoi(layer)
		if err != nil || named && stage == "" {
			return nil, usagef("--checkpoints %q: %q is not a point: use all, or a list such as 0,3:attn_out", s, part)
		}
		c.points = append(c.points, point{n, stage})
	}
	return c, nil
}

func (c *checkpoints) has(layer int, stage string) bool {
	return c.all || slices.Contains(c.points, point{layer, ""}) || slices.Contains(c.points, point{layer, stage})
}

// printer returns a function that prints the selected points to w. The engine calls it at every point of a forward pass.
func (c *checkpoints) printer(w io.Writer) func(compute.Checkpoint) {
	return func(p compute.Checkpoint) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.note(p.Layer, p.Stage)
		if c.has(p.Layer, p.Stage) {
			fmt.Fprintf(w, "layer %d %s row %d sum %.6g norm %.6g\n", p.Layer, p.Stage, p.Row, p.Sum, p.Norm) //nolint:errcheck // only for debugging
		}
	}
}

func (c *checkpoints) note(layer int, stage string) {
	c.seen[point{layer, stage}], c.seen[point{layer, ""}] = true, true
	if i, ok := slices.BinarySearch(c.layers, layer); !ok {
		c.layers = slices.Insert(c.layers, i, layer)
	}
	if i, ok := slices.BinarySearch(c.stages, stage); !ok {
		c.stages = slices.Insert(c.stages, i, stage)
	}
}

// missing returns an error if the forward pass did not reach a selected point. It returns nil if there was no forward pass.
func (c *checkpoints) missing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.layers) == 0 {
		return nil
	}
	for _, p := range c.points {
		if !c.seen[p] {
			return fmt.Errorf("--checkpoints: there is no point %s; the layers are %d to %d, and their stages are among %s",
				strings.TrimSuffix(fmt.Sprintf("%d:%s", p.layer, p.stage), ":"), c.layers[0], c.layers[len(c.layers)-1], strings.Join(c.stages, ", "))
		}
	}
	return nil
}
