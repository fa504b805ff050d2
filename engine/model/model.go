// Package model holds the model families: their weights, read from a GGUF file, and one forward pass each, written over
// package compute for any mix of prefill and decode rows.
package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// ErrUnsupported is wrapped by the errors of files that are well-formed but hold something that no model here computes.
var ErrUnsupported = errors.New("model is not supported")

// Config describes a model as its file does.
type Config struct {
	Architecture string // GGUF's general.architecture, such as "llama"
	Name         string // general.name, may be empty
	Vocab        int
	Context      int // positions the model was trained for
	Layers       int // layers of the trunk, without MTP layers
	Hidden       int
	DraftLayers  int // MTP layers
	// KeyCols and ValueCols are the values that one position takes in a layer of the cache; see compute.CacheShape.
	KeyCols, ValueCols int
	// KeyDim and ValueDim are those of one head.
	KeyDim, ValueDim int
}

// PositionBytes is the memory that one position takes in the cache of all layers, where values are stored as t. A head has
// to be whole blocks of t.
func (c Config) PositionBytes(t gguf.Type) (int, error) {
	keyBytes, err := t.RowBytes(c.KeyDim)
	if err != nil {
		return 0, err
	}
	valueBytes, err := t.RowBytes(c.ValueDim)
	if err != nil {
		return 0, err
	}
	position := keyBytes * (c.KeyCols / c.KeyDim)
	if c.ValueCols > 0 {
		position += valueBytes * (c.ValueCols / c.ValueDim)
	}
	layers := c.Layers + c.DraftLayers
	if position > maxPosition/layers {
		return 0, fmt.Errorf("a position of %d bytes in each of %d layers is more than any model's: %w", position, layers, ErrUnsupported)
	}
	return layers * position, nil
}

// maxPosition bounds what the settings of a file may ask for a position of the cache, in bytes: a thousand times what large
// models take, and so little that a product with a context fits an int.
const maxPosition = 1 << 32

// Limits sizes what a loaded model can hold. All are at least 1.
type Limits struct {
	Rows     int // rows a step
	Outputs  int // rows a step that reach the output head
	Context  int // positions a sequence
	Pages    int // pages of the KV cache
	PageSize int // positions a page
	// KV is how keys and values are stored; see compute.CacheShape.
	KV gguf.Type
}

// Model is a language model loaded on a backend. Its methods are not safe for concurrent use.
type Model interface {
	Config() Config
	// Forward runs one step and returns the logits of the rows named in b.Outputs: [len(Outputs)][Vocab], valid until the
	// next call. It stores the keys of all rows in the cache.
	Forward(b *compute.Batch) ([][]float32, error)
	// Decode runs n steps, at most as many as the backend can have under way, and waits for the last alone. Each row of b is
	// its sequence's last and an output, and b.Top is at least 1. The first step is b; every further one has the same rows at
	// the next position, with the best token of the step before. Page tables have to reach as far.
	Decode(b *compute.Batch, n int) error
	// Best returns what compute.Step.Top made of the logits of step i of the last Decode, or of the last Forward or Draft as
	// step 0, where b.Top was not 0: a row an output, of which the first 2*b.Top+1 values count. They are valid until the next call.
	Best(i int) [][]float32
}

// Drafter is a model with an MTP layer (multi-token prediction), which drafts tokens after the trunk's own.
type Drafter interface {
	Model
	// Draft runs the MTP layer and returns the logits of the rows named in b.Outputs, valid until the next call of Forward or
	// Draft. Slot p of the layer stands at position p and takes the token at p+1 (in b.Tokens) and a hidden state: row
	// states[i] of from, for row i of b. Known tokens take the trunk's state of position p; each further draft of a chain takes
	// the state that the draft before it left. The layer's cache has the page table of the trunk's.
	Draft(b *compute.Batch, from States, states []int32) ([][]float32, error)
}

// States names the hidden states that a draft starts from.
type States int

const (
	// TrunkStates are the trunk's, after its final norm, of the last Forward; a row for each of its rows.
	TrunkStates States = iota
	// DraftStates are the MTP layer's own, of the last Draft; a row for each of its outputs.
	DraftStates
)

// family is how files of an architecture are read. Both functions leave their errors with the loader.
type family struct {
	config func(l *loader) Config
	load   func(l *loader, c Config, lim Limits) Model
}

// families has the model families by GGUF's general.architecture. To add one, write a file like llama.go and add its row.
var families = map[string]family{
	"llama":       {llamaConfig, loadLlama},
	"deepseek2":   {glmConfig, loadGLM},
	"glm4moelite": {glmConfig, loadGLM}, // deepseek2 under the name that older files use
}

// ReadConfig reads what a file says of its model, without its weights.
func ReadConfig(f *gguf.File) (Config, error) {
	l, family, err := open(nil, f)
	if err != nil {
		return Config{}, err
	}
	c := family.config(l)
	if l.err != nil {
		return Config{}, fmt.Errorf("read the settings of %s: %w", f.Path(), l.err)
	}
	return c, nil
}

// Load reads the weights of f onto a backend. The file must stay open for as long as the model is used.
func Load(be compute.Backend, f *gguf.File, lim Limits) (Model, error) {
	l, family, err := open(be, f)
	if err != nil {
		return nil, err
	}
	c := family.config(l)
	l.checkCache(c, lim.KV)
	var m Model
	if l.err == nil {
		m = family.load(l, c, lim)
	}
	if l.err != nil {
		return nil, fmt.Errorf("load %s: %w", f.Path(), l.err)
	}
	// What the backend has copied need not stay in memory twice.
	return m, f.Release()
}

// open finds the family of a file and refuses architectures without one.
func open(be compute.Backend, f *gguf.File) (*loader, family, error) {
	arch, err := f.Meta().String("general.architecture")
	if err != nil {
		return nil, family{}, fmt.Errorf("read the settings of %s: %w", f.Path(), err)
	}
	found, ok := families[arch]
	if !ok {
		names := slices.Sorted(maps.Keys(families))
		return nil, family{}, fmt.Errorf("read the settings of %s: architecture %q: %w (supported: %s)",
			f.Path(), arch, ErrUnsupported, strings.Join(names, ", "))
	}
	return newLoader(be, f, arch), found, nil
}
