package bench

import (
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

// Traffic computes the bytes that the steps of a model must read in any engine: the weights in the
// types of the file, once per step, and the cache up to each sequence's position. Drafting passes
// are not included.
type Traffic struct {
	dense       int64 // bytes of the weights that every step reads, without the head
	head        int64 // bytes of the output head
	experts     int64 // bytes of all routed experts of all layers
	count, used int   // number of experts of a layer, and number that each row uses
	embedding   int64 // bytes of a row's embedding
	position    int64 // bytes of a position in the cache of the trunk's layers
	state       int64 // bytes of a recurrent state that a step reads and writes
	stepTokens  int   // maximum number of rows of a step
}

var layerName = regexp.MustCompile(`^blk\.(\d+)\.`)

// ReadTraffic is NewTraffic of the model in the file with the given path.
func ReadTraffic(path string, kv gguf.Type, stepTokens int) (Traffic, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return Traffic{}, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	return NewTraffic(f, kv, stepTokens)
}

// NewTraffic returns the traffic of a model's file with a cache of type kv and steps of up to
// stepTokens rows.
func NewTraffic(f *gguf.File, kv gguf.Type, stepTokens int) (Traffic, error) {
	c, err := model.ReadConfig(f)
	if err != nil {
		return Traffic{}, err
	}
	t := Traffic{stepTokens: stepTokens}
	position, err := c.PositionBytes(kv)
	if err != nil {
		return Traffic{}, fmt.Errorf("compute the size of the KV cache of %s: %w", f.Path(), err)
	}
	t.position = int64(position) * int64(c.CachedLayers()-c.DraftLayers) / int64(max(c.CachedLayers(), 1))
	t.state = 2 * c.States.SlotBytes()
	_, ownHead := f.Tensor("output.weight")
	for _, w := range f.Tensors() {
		bytes := int64(len(w.Data))
		if m := layerName.FindStringSubmatch(w.Name); m != nil {
			if layer, err := strconv.Atoi(m[1]); err == nil && layer >= c.Layers {
				continue // a weight of an MTP layer
			}
		}
		switch {
		case w.Name == "per_layer_token_embd.weight":
			t.embedding += bytes / int64(w.Shape[1])
		case w.Name == "token_embd.weight":
			t.embedding += bytes / int64(w.Shape[1])
			if !ownHead {
				t.head = bytes
			}
		case w.Name == "output.weight":
			t.head = bytes
		case len(w.Shape) == 3 && isExperts(w.Name):
			t.experts += bytes
			t.count = w.Shape[2]
		default:
			t.dense += bytes
		}
	}
	if t.count > 0 {
		used, err := f.Meta().Uint(c.Architecture + ".expert_used_count")
		if err != nil {
			return Traffic{}, err
		}
		t.used = int(used)
	}
	return t, nil
}

var expertsName = regexp.MustCompile(`\.ffn_(gate|up|gate_up|down)_exps\.weight$`)

func isExperts(name string) bool { return expertsName.MatchString(name) }

// Experts returns the expected number of experts per layer that a step of the given number of rows
// uses, if routing is uniform.
func (t *Traffic) Experts(rows float64) float64 {
	if t.count == 0 {
		return 0
	}
	n := float64(t.count)
	return n * (1 - math.Pow(1-float64(t.used)/n, rows))
}

// Parts has the number of bytes of each kind of data that a step reads.
type Parts struct {
	Head    float64 // the output head
	Experts float64
	Dense   float64 // all other weights
	Cache   float64 // keys and values, and recurrent states, which are also written
}

// Sum returns all bytes.
func (p Parts) Sum() float64 { return p.Head + p.Experts + p.Dense + p.Cache }

func (t *Traffic) weights(rows float64) Parts {
	p := Parts{Head: float64(t.head), Dense: float64(t.dense) + rows*float64(t.embedding)}
	if t.count > 0 {
		p.Experts = float64(t.experts) * t.Experts(rows) / float64(t.count)
	}
	return p
}

// Decode returns the bytes that a decoding step reads. It has the given number of streams, each
// with the given number of rows. position is the mean number of positions in a stream's cache.
func (t *Traffic) Decode(streams, rows, position float64) Parts {
	p := t.weights(streams * rows)
	p.Cache = streams * (position*float64(t.position) + float64(t.state))
	return p
}

// prompts returns the bytes that steps read to compute one prompt for each stream, if each step has
// as many rows as possible. cached is the number of tokens of a prompt that are already in the
// cache. computed is the number of its other tokens.
func (t *Traffic) prompts(streams, cached, computed float64) float64 {
	all := streams * computed
	steps := math.Ceil(all / float64(t.stepTokens))
	if steps == 0 {
		return 0
	}
	// Each chunk of a prompt reads the cache up to the end of the chunk.
	chunks := math.Ceil(computed / float64(t.stepTokens))
	positions := chunks*cached + computed*(chunks+1)/2
	return steps*t.weights(all/steps).Sum() + streams*positions*float64(t.position)
}
