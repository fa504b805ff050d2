// Package shape writes GGUF files with the shapes of known models and random weights. With such
// files, the speed of this and other engines can be measured without downloading models.
package shape

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// families has the families of models. parse returns nil for a name that is not one of the
// family's.
var families = []struct {
	names string
	parse func(name string) (*Shape, error)
}{
	{decoderNames, parseDecoder},
	{glmNames, parseGLM},
	{hybridNames, parseHybrid},
	{gemma4Names, parseGemma4},
}

// Names lists the names that Parse accepts, for messages.
func Names() string {
	var all []string
	for _, f := range families {
		all = append(all, f.names)
	}
	list := strings.Join(all, ", ")
	last := strings.LastIndex(list, ", ")
	return list[:last] + " and " + list[last+2:]
}

// Shape is a model without its weights.
type Shape struct {
	name    string
	vocab   int
	meta    func(*gguf.Metadata)
	tensors func(*builder)
}

// Name returns the shape's name, such as "glm-4.7-flash:8".
func (s *Shape) Name() string { return s.name }

// Parse returns the shape with the given name, such as "qwen3-8b" or, with only its first 4 layers,
// "qwen3-8b:4". It returns an error for other names than those of Names.
func Parse(name string) (*Shape, error) {
	for _, f := range families {
		if s, err := f.parse(name); s != nil || err != nil {
			return s, err
		}
	}
	return nil, fmt.Errorf("shape %q is not known: use %s", name, Names())
}

// Write writes a GGUF file of the shape with matrices of type quant, which must be one of
// gguf.Types. As in llama.cpp's quantiser, the output head has a type with more bits, and a type
// with blocks of 256 is replaced by another type for tensors whose rows are not whole blocks. The
// tensors of a type share one pool of random values, so that a few hundred megabytes of memory are
// enough. The content of the file depends only on the shape and the type.
func (s *Shape) Write(w io.Writer, quant gguf.Type) error {
	meta, list, err := s.build(&builder{quant: quant, random: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		return err
	}
	return gguf.Write(w, meta, list)
}

// Layout returns the file that Write would write, in memory, with zeros as data, which take no
// memory unless they are read. It is for callers that need only sizes and types.
func (s *Shape) Layout(quant gguf.Type) (*gguf.File, error) {
	meta, list, err := s.build(&builder{quant: quant})
	if err != nil {
		return nil, err
	}
	return gguf.New(s.name, meta, list), nil
}

func (s *Shape) build(b *builder) (*gguf.Metadata, []gguf.Tensor, error) {
	meta := gguf.NewMetadata()
	s.meta(meta)
	vocabulary(meta, s.vocab)
	s.tensors(b)
	if err := b.fill(); err != nil {
		return nil, nil, fmt.Errorf("shape %s: %w", s.name, err)
	}
	return meta, b.list, nil
}

type builder struct {
	quant  gguf.Type
	random *rand.Rand // nil for weights of zero
	list   []gguf.Tensor
}

func (b *builder) matrix(name string, dims ...int) { b.add(name, b.quant, dims...) }

// head adds an output head. It has the type of the matrices if that is a float type or Q8_0,
// otherwise Q6_K.
func (b *builder) head(name string, dims ...int) {
	switch b.quant {
	case gguf.TypeF32, gguf.TypeF16, gguf.TypeBF16, gguf.TypeQ80:
		b.matrix(name, dims...)
	default:
		b.add(name, gguf.TypeQ6K, dims...)
	}
}

func (b *builder) floats(name string, dims ...int) { b.add(name, gguf.TypeF32, dims...) }

// shorter maps a type with blocks of 256 to the type that replaces it for rows whose length is not
// a multiple of 256. Types that are not in the map are replaced by Q8_0.
var shorter = map[gguf.Type]gguf.Type{
	gguf.TypeQ2K: gguf.TypeIQ4NL, gguf.TypeQ3K: gguf.TypeIQ4NL, gguf.TypeIQ4XS: gguf.TypeIQ4NL,
	gguf.TypeIQ1S: gguf.TypeIQ4NL, gguf.TypeIQ1M: gguf.TypeIQ4NL, gguf.TypeIQ2XXS: gguf.TypeIQ4NL, gguf.TypeIQ2XS: gguf.TypeIQ4NL,
	gguf.TypeIQ2S: gguf.TypeIQ4NL, gguf.TypeIQ3XXS: gguf.TypeIQ4NL, gguf.TypeIQ3S: gguf.TypeIQ4NL, gguf.TypeTQ10: gguf.TypeQ40, gguf.TypeTQ20: gguf.TypeQ40,
	gguf.TypeQ4K: gguf.TypeQ50, gguf.TypeQ5K: gguf.TypeQ51, gguf.TypeQ6K: gguf.TypeQ80,
}

func (b *builder) add(name string, t gguf.Type, dims ...int) {
	if dims[0]%t.BlockSize() != 0 {
		other, ok := shorter[t]
		if !ok {
			other = gguf.TypeQ80
		}
		t = other
	}
	b.list = append(b.list, gguf.Tensor{Name: name, Type: t, Shape: dims})
}

// slack is the number of rows by which a pool is larger than its largest tensor, so that tensors
// can start at different rows.
const slack = 64

func (b *builder) fill() error {
	sizes, largest := make([]int, len(b.list)), map[gguf.Type]int{}
	rowBytes := make([]int, len(b.list))
	for i, t := range b.list {
		n, err := t.Type.RowBytes(t.Shape[0])
		if err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		rowBytes[i], sizes[i] = n, t.Elements()/t.Shape[0]*n
		largest[t.Type] = max(largest[t.Type], sizes[i]+slack*n)
	}
	pools := map[gguf.Type][]byte{}
	for i := range b.list {
		t := &b.list[i]
		if len(t.Shape) == 1 && b.random != nil {
			t.Data = vector(b.random, t.Name, t.Shape[0])
			continue
		}
		if pools[t.Type] == nil {
			pools[t.Type] = make([]byte, (largest[t.Type]/t.Type.BlockBytes()+1)*t.Type.BlockBytes())
			if b.random != nil {
				Randomize(b.random, t.Type, pools[t.Type])
			}
		}
		at := 0
		if b.random != nil {
			at = b.random.IntN(slack) * rowBytes[i]
		}
		t.Data = pools[t.Type][at : at+sizes[i]]
	}
	return nil
}
