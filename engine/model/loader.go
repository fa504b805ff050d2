package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// loader reads a model's settings and tensors. The first error is stored in err. After an error,
// the methods return zero values, so that callers need not check each call.
type loader struct {
	be   compute.Backend
	file *gguf.File
	arch string
	used map[string]bool // names of the tensors that the model uses, collected while loading
	err  error

	placed   func(bytes int) // Limits.Placed; nil if nobody asks
	scales   *bool           // whether the file has scales of NVFP4 tensors; nil if it was not looked at yet
	planning bool            // only count memory and allocate none; see Plan
}

func newLoader(be compute.Backend, f *gguf.File, arch string) *loader {
	return &loader{be: be, file: f, arch: arch, used: map[string]bool{}}
}

// fail stores an error if it is the first. It ignores nil.
func (l *loader) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *loader) key(name string) string { return l.arch + "." + name }

func (l *loader) has(name string) bool { return l.file.Meta().Has(l.key(name)) }

// maxSize is the maximum of every size in a file's settings. It is chosen so that the product of
// three sizes fits into an int.
const maxSize = 1 << 20

// size reads a setting that must be present and an integer from 1 to maxSize.
func (l *loader) size(name string) int {
	l.require(name)
	v := l.sizeOr(name, 0)
	if v == 0 {
		l.fail(fmt.Errorf("%s is 0, but must be from 1 to %d", l.key(name), maxSize))
	}
	return v
}

// maxContext is the maximum of Config.Context. Its product with maxPosition fits into an int.
const maxContext = 1 << 30

// context reads how many positions the model was trained for. A larger number than maxContext
// counts as maxContext: memory limits the context long before.
func (l *loader) context() int {
	const name = "context_length"
	l.require(name)
	v := settingOr(l, name, 0, l.file.Meta().Uint)
	if v == 0 {
		l.fail(fmt.Errorf("%s is 0, but must be at least 1", l.key(name)))
	}
	return int(min(v, maxContext))
}

// sizeOr reads a setting that must be an integer from 0 to maxSize. It returns fallback if the
// setting is absent.
func (l *loader) sizeOr(name string, fallback int) int {
	if _, err := l.file.Meta().Ints(l.key(name)); err == nil {
		l.fail(fmt.Errorf("%s is an array (layers of different sizes): %w", l.key(name), ErrUnsupported))
		return 0
	}
	v := settingOr(l, name, uint64(fallback), l.file.Meta().Uint)
	if v > maxSize {
		l.fail(fmt.Errorf("%s is %d, but must be at most %d", l.key(name), v, maxSize))
		return 0
	}
	return int(v)
}

// uniformOr is sizeOr for a setting that can have a number for each layer. These numbers must be
// the same, except for layers with 0.
func (l *loader) uniformOr(name string, fallback int) (v int) {
	list, err := l.file.Meta().Ints(l.key(name))
	if err != nil {
		return l.sizeOr(name, fallback)
	}
	for _, n := range list {
		if n < 0 || n > maxSize || n > 0 && v > 0 && int(n) != v {
			l.fail(fmt.Errorf("%s is an array of different sizes, or of sizes that are not from 0 to %d: %w", l.key(name), maxSize, ErrUnsupported))
			return 0
		}
		v = max(v, int(n))
	}
	return v
}

// uniform is size for a setting that can have a number for each layer; see uniformOr.
func (l *loader) uniform(name string) int {
	l.require(name)
	v := l.uniformOr(name, 0)
	if v == 0 {
		l.fail(fmt.Errorf("%s is 0, but must be from 1 to %d", l.key(name), maxSize))
	}
	return v
}

// zeros returns for which of the given number of layers a setting is 0.
func (l *loader) zeros(name string, layers int) []bool {
	zero := make([]bool, layers)
	list, err := l.file.Meta().Ints(l.key(name))
	if err == nil && len(list) < layers {
		err = fmt.Errorf("%s has %d values, but the model has %d layers", l.key(name), len(list), layers)
	}
	l.fail(err)
	for i := range min(layers, len(list)) {
		zero[i] = list[i] == 0
	}
	return zero
}

// floatOr reads a setting that is finite and at least 0. It returns fallback if the setting is
// absent.
func (l *loader) floatOr(name string, fallback float64) float64 {
	v := settingOr(l, name, fallback, l.file.Meta().Float)
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		l.fail(fmt.Errorf("%s is %g, but must be finite and at least 0", l.key(name), v))
		return fallback
	}
	return v
}

func (l *loader) eps() float32 {
	const name = "attention.layer_norm_rms_epsilon"
	l.require(name)
	return float32(l.floatOr(name, 0))
}

// refuse refuses a file that has an unsupported setting, unless the setting has no effect because
// its value equals neutral.
func (l *loader) refuse(name string, neutral float64) {
	if v := l.floatOr(name, neutral); v != neutral {
		l.fail(fmt.Errorf("%s is %g: %w", l.key(name), v, ErrUnsupported))
	}
}

func (l *loader) boolOr(name string, fallback bool) bool {
	return settingOr(l, name, fallback, l.file.Meta().Bool)
}

func (l *loader) stringOr(name, fallback string) string {
	return settingOr(l, name, fallback, l.file.Meta().String)
}

// settingOr reads a setting with the given method of the metadata. It returns fallback if the
// setting is absent.
func settingOr[T any](l *loader, name string, fallback T, read func(key string) (T, error)) T {
	if !l.has(name) {
		return fallback
	}
	v, err := read(l.key(name))
	if err != nil {
		l.fail(err)
		return fallback
	}
	return v
}

func (l *loader) require(name string) {
	if !l.has(name) {
		l.fail(fmt.Errorf("metadata %s: %w", l.key(name), gguf.ErrMissing))
	}
}

// tensor returns a tensor of the given shape, fastest dimension first. The tensor in the file may
// have fewer or more dimensions if its first dimension and its number of values are the same.
func (l *loader) tensor(name string, shape ...int) gguf.Tensor {
	t, ok := l.file.Tensor(name)
	if !ok {
		l.fail(fmt.Errorf("tensor %s is missing", name))
		return gguf.Tensor{}
	}
	l.used[name] = true
	if len(t.Shape) == 0 || t.Shape[0] != shape[0] || t.Elements() != elements(shape) {
		l.fail(fmt.Errorf("tensor %s has shape %v, but the file's settings require %v", name, t.Shape, shape))
		return gguf.Tensor{}
	}
	t.Shape = shape
	if t.Type == gguf.TypeNVFP4 {
		return l.scaled(t)
	}
	return t
}

func (l *loader) weight(name string, shape ...int) compute.Weight {
	return l.place(l.tensor(name, shape...))
}

// optional is like the method weight, but for a tensor that a file need not have. It returns nil if
// the file does not have the tensor.
func (l *loader) optional(name string, shape ...int) compute.Weight {
	if _, ok := l.file.Tensor(name); !ok {
		return nil
	}
	return l.weight(name, shape...)
}

func (l *loader) vector(name string, shape ...int) compute.Weight {
	t := l.tensor(name, shape...)
	t.Shape = []int{elements(shape)}
	return l.place(t)
}

// column is vector for n values, each of which may be a row of its own.
func (l *loader) column(name string, n int) compute.Weight {
	if t, ok := l.file.Tensor(name); ok && len(t.Shape) > 1 {
		return l.vector(name, 1, n)
	}
	return l.weight(name, n)
}

// joined loads several vectors as one vector of float32. sizes are their lengths. The values are
// multiplied by factor.
func (l *loader) joined(factor float32, names []string, sizes ...int) compute.Weight {
	var values []float32
	for i, name := range names {
		if t := l.tensor(name, sizes[i]); l.err == nil && !l.planning {
			values = append(values, t.Values()...)
		}
	}
	if l.err != nil {
		return nil
	}
	n := 0
	for _, size := range sizes {
		n += size
	}
	t := gguf.Tensor{Name: names[0], Type: gguf.TypeF32, Shape: []int{n}}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v*factor))
	}
	return l.place(t)
}

// ones makes a vector of n ones, the gain of a norm without a gain.
func (l *loader) ones(n int) compute.Weight {
	return l.constant("ones", slices.Repeat([]float32{1}, n))
}

// constant makes a vector of float32.
func (l *loader) constant(name string, values []float32) compute.Weight {
	t := gguf.Tensor{Name: name, Type: gguf.TypeF32, Shape: []int{len(values)}}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return l.place(t)
}

// headOr loads an output head, as the argument list of MatMul. It returns fallback if the file does
// not have it.
func (l *loader) headOr(fallback compute.Weight, name string, c Config) []compute.Weight {
	if w := l.optional(name, c.Hidden, c.Vocab); w != nil {
		return []compute.Weight{w}
	}
	return []compute.Weight{fallback}
}

func (l *loader) place(t gguf.Tensor) compute.Weight {
	if l.err != nil {
		return nil
	}
	w, err := l.be.Weight(t)
	l.fail(err)
	l.report(t)
	if !l.planning {
		l.fail(l.file.ReleaseTensor(t)) // the backend has a copy, and the model should not be in memory twice
	}
	return w
}

// report reports that a tensor is loaded.
func (l *loader) report(t gguf.Tensor) {
	if l.placed != nil {
		l.placed(len(t.Data))
	}
}

func (l *loader) buffer(rows, cols int) compute.Tensor {
	if l.err != nil {
		return compute.Tensor{}
	}
	t, err := l.be.Buffer(rows, cols)
	l.fail(err)
	return t
}

func (l *loader) vocab(hidden int) int {
	t, ok := l.file.Tensor("token_embd.weight")
	if !ok || hidden == 0 {
		l.fail(fmt.Errorf("tensor token_embd.weight is missing"))
		return 0
	}
	if len(t.Shape) != 2 || t.Shape[0] != hidden {
		l.fail(fmt.Errorf("tensor token_embd.weight has shape %v, but must have %d values per token of the vocabulary", t.Shape, hidden))
		return 0
	}
	return t.Shape[1]
}

// unused refuses a file with tensors that the model does not use: ignoring a tensor such as a bias
// would give wrong results. ignore reports whether a forward pass can do without the tensor with
// the given name.
func (l *loader) unused(ignore func(name string) bool) {
	for _, t := range l.file.Tensors() {
		if !l.used[t.Name] && !ignore(t.Name) {
			l.fail(fmt.Errorf("tensor %.100q is not part of a %s model: %w", t.Name, l.arch, ErrUnsupported))
			return
		}
	}
}

func blockTensor(layer int, name string) string { return fmt.Sprintf("blk.%d.%s", layer, name) }

func inBlocks(name string, from int) bool {
	var layer int
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return false
	}
	_, err := fmt.Sscanf(rest, "%d.", &layer)
	return err == nil && layer >= from
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// derivedTables are tensors in old files whose values follow from the settings. Ingot computes the
// values and does not read these tensors.
var derivedTables = []string{"attn_rot_embd.weight", "rope_freqs.weight"}

func isDerived(name string) bool {
	return slices.ContainsFunc(derivedTables, func(s string) bool { return strings.HasSuffix(name, s) })
}

// maxName is the maximum length of a model's name in bytes. A longer one is cut: each result has
// the name.
const maxName = 200

func (l *loader) name() string {
	name, err := l.file.Meta().String("general.name")
	if err != nil {
		return ""
	}
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") // the cut may be within a character
	}
	return name
}

// checkCache refuses a KV cache type that does not fit the model: a head's key and value must each
// be whole blocks of the type.
func (l *loader) checkCache(c Config, t gguf.Type) {
	if block := t.BlockSize(); l.err == nil && block > 0 && (c.KeyDim%block != 0 || c.ValueDim%block != 0) {
		l.fail(fmt.Errorf("%w with a KV cache of type %v: a head with %d values per key and %d per value is not whole blocks of %d; use f16 (--kv)",
			ErrUnsupported, t, c.KeyDim, c.ValueDim, block))
	}
	if l.err == nil {
		_, err := c.PositionBytes(t)
		l.fail(err)
	}
}

func (l *loader) rope(freqs compute.RopeFreqs, lim Limits) compute.Rope {
	if l.err != nil {
		return nil
	}
	rope, err := l.be.Rope(freqs, lim.Context)
	l.fail(err)
	return rope
}

func (l *loader) cache(c Config, lim Limits) compute.Cache {
	if l.err != nil {
		return nil
	}
	groups := c.Groups(lim)
	cache, err := l.be.Cache(compute.CacheShape{
		Layers: groups.Layers, Parts: groups.Parts, Pages: lim.Pages, PageSize: lim.PageSize, KeyCols: c.KeyCols, ValueCols: c.ValueCols, Type: lim.KV,
	})
	l.fail(err)
	return cache
}
