package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/ingot-run/ingot/engine/compute"
)

// checkpoints says which points of the forward pass are printed.
type checkpoints struct {
	all    bool
	points []point
}

type point struct {
	layer int
	stage string // empty for every stage of the layer
}

// parseCheckpoints reads "all", or a list such as "0,3:attn_out".
func parseCheckpoints(s string) (checkpoints, error) {
	if s == "all" {
		return checkpoints{all: true}, nil
	}
	var c checkpoints
	for part := range strings.SplitSeq(s, ",") {
		layer, stage, _ := strings.Cut(part, ":")
		n, err := strconv.Atoi(layer)
		if err != nil {
			return checkpoints{}, usagef("--checkpoints %q: %q is no layer; give all, or a list such as 0,3:attn_out", s, layer)
		}
		c.points = append(c.points, point{n, stage})
	}
	return c, nil
}

func (c checkpoints) has(layer int, stage string) bool {
	if c.all {
		return true
	}
	for _, p := range c.points {
		if p.layer == layer && (p.stage == "" || p.stage == stage) {
			return true
		}
	}
	return false
}

// printer returns a trace for the engine that prints the chosen points to w.
func (c checkpoints) printer(w io.Writer) func(compute.Checkpoint) {
	var mu sync.Mutex
	return func(p compute.Checkpoint) {
		if !c.has(p.Layer, p.Stage) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "layer %d %s row %d sum %.6g norm %.6g\n", p.Layer, p.Stage, p.Row, p.Sum, p.Norm) //nolint:errcheck // for debugging
	}
}
