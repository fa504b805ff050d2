// Package model implements the model families. A family reads its weights from a GGUF file and has
// one forward pass, which uses package compute and processes any mix of prefill and decode rows.
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

// ErrUnsupported is wrapped by errors about files that are well formed but need a computation that
// Ingot does not have.
var ErrUnsupported = errors.New("model is not supported")

// Config has the settings of a model from its file.
type Config struct {
	Architecture string // GGUF's general.architecture, such as "llama"
	Name         string // general.name; can be empty
	Vocab        int
	Context      int // maximum number of positions that the model was trained for
	Layers       int // layers of the trunk, without MTP layers
	Hidden       int
	DraftLayers  int // MTP layers
	Window       int // positions to which layers with a window attend; 0 if there are none
	Sliding      int // number of layers of the cache with a window
	// Shared is the number of the trunk's last layers that store no keys and values. Each attends
	// to those of an earlier layer.
	Shared int
	// Assistant reports whether the model only drafts for another one, to whose keys and values it
	// attends. It stores none. See LoadAssistant.
	Assistant bool
	// KeyCols and ValueCols are the numbers of values of one position in a layer of the cache; see
	// compute.CacheShape.
	KeyCols, ValueCols int
	// FullParts and SlidingParts are the numbers of layers without and with a window that store as
	// many values together as KeyCols and ValueCols say; 0 means 1. One of them is 1.
	FullParts, SlidingParts int
	// KeyDim and ValueDim are the numbers of values of one head's key and value.
	KeyDim, ValueDim int
	// States has the sizes of the recurrent layers' states, without Slots and Drafts. It is zero if
	// there are no recurrent layers. These layers have no keys and values in the cache.
	States compute.StateShape
	// ExtraLayers is by how many layers of the cache a model needs more than one for each layer
	// that is not recurrent: convolution layers may store more than a layer's keys and values, and
	// layers without attention store nothing.
	ExtraLayers int
}

// CachedLayers returns the number of layers of the cache, including those of MTP layers.
func (c Config) CachedLayers() int {
	return c.Layers + c.DraftLayers - c.Shared - c.States.Layers + c.ExtraLayers
}

// PositionBytes returns the bytes of one position in the cache of all layers, with values of type
// t. The values of a head must fill whole blocks of t.
func (c Config) PositionBytes(t gguf.Type) (int, error) {
	if c.Assistant {
		return 0, nil
	}
	keyBytes, err := t.RowBytes(c.KeyDim)
	if err != nil {
		return 0, fmt.Errorf("a head's key: %w", err)
	}
	valueBytes, err := t.RowBytes(c.ValueDim)
	if err != nil {
		return 0, fmt.Errorf("a head's value: %w", err)
	}
	position := keyBytes * (c.KeyCols / c.KeyDim)
	if c.ValueCols > 0 {
		position += valueBytes * (c.ValueCols / c.ValueDim)
	}
	layers := max(c.CachedLayers(), 1)
	if position > maxPosition/layers {
		return 0, fmt.Errorf("a position of the KV cache takes %d bytes in each of %d layers, but the maximum is %d bytes in all layers: %w",
			position, layers, maxPosition, ErrUnsupported)
	}
	full, sliding := c.stored()
	return full*position/max(c.FullParts, 1) + sliding*position/max(c.SlidingParts, 1), nil
}

// Grouped reports whether the layers of the model have several page tables with any limits.
func (c Config) Grouped() bool { return max(c.FullParts, 1) != max(c.SlidingParts, 1) }

// stored returns the numbers of layers of the cache without and with a window. A cache has at least
// one layer, also if all layers of the model are recurrent.
func (c Config) stored() (full, sliding int) {
	return max(c.CachedLayers(), 1) - c.Sliding, c.Sliding
}

// WindowedBytes returns the part of PositionBytes that layers with a window store.
func (c Config) WindowedBytes(t gguf.Type) (int, error) {
	all, err := c.PositionBytes(t)
	full, sliding := c.stored()
	of, one := sliding*max(c.FullParts, 1), full*max(c.SlidingParts, 1)
	return all / max(of+one, 1) * of, err
}

// maxPosition is the maximum number of bytes of a position in the cache of all layers. Large models
// need about a thousandth of it. Its product with a context fits into an int.
const maxPosition = 1 << 32

// Limits are the sizes that a model is loaded for. All numbers are at least 1.
type Limits struct {
	Rows     int // rows per step
	Outputs  int // rows per step that reach the output head
	Context  int // positions per sequence
	Pages    int // pages of the KV cache
	PageSize int // positions per page
	// RopeContext is the context for which the RoPE factors of a model with several sets are
	// chosen: what the user asked for or, by default, the context that the model was trained for.
	// Unlike Context, it does not depend on memory. 0 means Context.
	RopeContext int
	// KV is the type in which the cache stores keys and values; see compute.CacheShape.
	KV gguf.Type
	// FreeWindows divides the layers into groups with separate page tables, so that pages before a
	// window can be freed: see Config.Groups. If it is false, all layers share one page table.
	FreeWindows bool
	// States is the number of slots for recurrent states, and Drafts the number of rows in a slot's
	// log; see compute.StateShape. They are only used by models with recurrent layers.
	States, Drafts int
	// Placed, if it is not nil, is called for each tensor that Load has loaded, with its bytes.
	Placed func(bytes int)
}

// Model is a language model loaded on a backend. Its methods are not safe for concurrent use.
type Model interface {
	Config() Config
	// Forward runs one step and returns the logits of the rows in b.Outputs: [len(Outputs)][Vocab],
	// valid until the next call. It stores the keys and values of all rows in the cache.
	Forward(b *compute.Batch) ([][]float32, error)
	// Decode runs step b or, if b.Prepare is not nil, up to n steps. Prepare is then called for
	// each step and decides whether a further one follows. In the first of several steps, a
	// sequence can have any number of rows, of which the last one is its only output. Each further
	// step has a row of each sequence at the next position, with the token that the step before has
	// drawn: its forward pass is submitted before the caller knows this token. The page tables must
	// have pages for all these positions.
	Decode(b *compute.Batch, n int) error
	// Drawn returns the result of compute.Step.Draw for step i of the last Decode: a row for each
	// output of a batch with Draws. The rows are valid until step i+1 has drawn, or else until the
	// next call; b.Prepare may read them during that step.
	Drawn(i int) [][]float32
	// Logits returns the logits of the outputs of the last Forward, of the last Draft with outputs,
	// or of the last Decode of one step. Those of a batch with Draws are changed by their edits.
	// The call reads them from the device, which is slow on some devices. They are valid until the
	// next call.
	Logits() [][]float32
	// Best returns the result of compute.Step.Top for step i of the last Decode. After Forward or
	// Draft, i must be 0. The result has a row for each output. If b.Top was not 0, the first
	// 2*b.Top+1 values of a row are set. The rows are valid as long as those of Drawn.
	Best(i int) [][]float32
}

// Drafter is a model with an MTP layer (multi-token prediction), which drafts the tokens after the
// one that the trunk chose.
type Drafter interface {
	Model
	// Draft runs the MTP layer. Afterwards, Logits and Best have the results of the rows in
	// b.Outputs. Without outputs, they keep their earlier results. The layer computes position p
	// from the token at p+1 (in b.Tokens) and a hidden state. The source is the trunk's or the
	// layer's hidden states. Row i of b uses number states[i] of the selected ones. For known
	// tokens, this is the trunk's state at position p. For a draft that follows another draft, it
	// is the state of that draft. The layer uses the page table of the trunk.
	Draft(b *compute.Batch, source States, states []int32) error
}

// States selects the hidden states from which a draft starts.
type States int

const (
	// TrunkStates are the states of the trunk after its final norm, one for each row of the last
	// Forward or Decode.
	TrunkStates States = iota
	// DraftStates are the states of the MTP layer, one for each output of the last Draft.
	DraftStates
)

// family has the functions that read the settings of a file and load its weights. Both functions
// report errors through the loader.
type family struct {
	config func(l *loader) Config
	load   func(l *loader, c Config, lim Limits) Model
}

// families has the model families by GGUF's general.architecture. To add a family, write a file
// like qwen.go and add an entry here.
var families = map[string]family{
	"llama":          decoderFamily(llama),
	"qwen2":          decoderFamily(qwen2),
	"qwen3":          decoderFamily(qwen3),
	"qwen3moe":       decoderFamily(qwen3moe),
	"gemma3":         slidingFamily(gemma3, gemma3Window),
	"gemma4":         {gemma4Config, loadGemma4},
	assistantArch:    {assistantConfig, planAssistant},
	"gpt-oss":        slidingFamily(gptOSS, gptOSSWindow),
	"glm4":           decoderFamily(glm4),
	"glm4moe":        decoderFamily(glm4moe),
	"phi3":           slidingFamily(phi3, phi3Window),
	"olmo2":          decoderFamily(olmo2),
	"smollm3":        decoderFamily(smollm3),
	"granite":        decoderFamily(granite),
	"lfm2":           convolutionFamily(lfm2),
	"lfm2moe":        convolutionFamily(lfm2moe),
	"granitehybrid":  mambaFamily(graniteHybrid, graniteHybridConfig),
	"nemotron_h":     mambaFamily(nemotron, nemotronConfig),
	"nemotron_h_moe": mambaFamily(nemotronMoE, nemotronConfig),
	"muse-glimmer":   slidingFamily(museGlimmer, museGlimmerWindow),
	"qwen35":         recurrentFamily(qwen35),
	"qwen35moe":      recurrentFamily(qwen35moe),
	"qwen3next":      recurrentFamily(qwen3next),
	"deepseek2":      {glmConfig, loadGLM},
	"glm4moelite":    {glmConfig, loadGLM}, // the name of deepseek2 in older files
}

// ReadConfig reads the description of a file's model, without its weights.
func ReadConfig(f *gguf.File) (Config, error) {
	l, family, err := open(nil, f)
	if err != nil {
		return Config{}, err
	}
	c := family.config(l)
	if errors.Is(l.err, gguf.ErrMissing) {
		return Config{}, fmt.Errorf("read the settings of %s: %w: download or convert the model again", f.Path(), l.err)
	} else if l.err != nil {
		return Config{}, fmt.Errorf("read the settings of %s: %w", f.Path(), l.err)
	}
	return c, nil
}

// Load reads the weights of f onto a backend. The file must stay open for as long as the model is
// used.
func Load(be compute.Backend, f *gguf.File, lim Limits) (Model, error) {
	l, family, err := open(be, f)
	if err != nil {
		return nil, err
	}
	l.placed = lim.Placed
	c := family.config(l)
	l.checkCache(c, lim.KV)
	var m Model
	if l.err == nil {
		l.err = prepare(be, f, lim)
	}
	if l.err == nil {
		m = family.load(l, c, lim)
	}
	if l.err != nil {
		return nil, fmt.Errorf("load %s: %w", f.Path(), l.err)
	}
	// The backend has packed copies of the weights, so the system can drop the file's pages from
	// memory. The CPU reads embeddings from the file again.
	return m, f.Release()
}

func open(be compute.Backend, f *gguf.File) (*loader, family, error) {
	arch, err := f.Meta().String("general.architecture")
	if err != nil {
		return nil, family{}, fmt.Errorf("read the settings of %s: %w", f.Path(), err)
	}
	found, ok := families[arch]
	if !ok {
		return nil, family{}, fmt.Errorf("read the settings of %s: architecture %.100q: %w%s (supported: %s)",
			f.Path(), arch, ErrUnsupported, use(arch), strings.Join(slices.Sorted(maps.Keys(families)), ", "))
	}
	return newLoader(be, f, arch), found, nil
}

// relatives maps unsupported architectures to related supported ones, if the beginnings of the
// names do not show the relation.
var relatives = map[string]string{
	"chatglm": "glm4", "glm-dsa": "deepseek2", "mistral3": "llama", "mixtral": "llama", "olmoe": "olmo2", "qwen2moe": "qwen3moe",
}

// use returns the advice to use a model of a supported architecture that is similar to arch; "" if
// there is none.
func use(arch string) string {
	nearest, length := relatives[arch], 0
	if nearest == "" {
		const related = 3 // minimum number of common letters at the beginning of both names
		for _, name := range slices.Sorted(maps.Keys(families)) {
			n := 0
			for n < min(len(name), len(arch)) && name[n] == arch[n] {
				n++
			}
			if n >= related && n > length {
				nearest, length = name, n
			}
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; use a model of architecture %s, the most similar supported one", nearest)
}
