package gguf

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func encode(t require.TestingT, meta *Metadata, tensors []Tensor) []byte {
	var b bytes.Buffer
	require.NoError(t, Write(&b, meta, tensors))
	return b.Bytes()
}

// TestWriteBytes compares the result with bytes written by hand from the format's description.
func TestWriteBytes(t *testing.T) {
	t.Parallel()
	m := NewMetadata()
	m.Set("general.alignment", uint32(8))
	m.Set("s", []string{"hi"})
	got := encode(t, m, []Tensor{
		{Name: "a", Type: TypeF16, Shape: []int{1}, Data: []byte{0xaa, 0xbb}},
		{Name: "b", Type: TypeF32, Shape: []int{1, 2}, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
	})
	want := new(raw).str4("GGUF").u32(3).u64(2).u64(2)
	want.str("general.alignment").u32(4).u32(8)
	want.str("s").u32(9).u32(8).u64(1).str("hi")
	want.str("a").u32(1).u64(1).u32(1).u64(0)
	want.str("b").u32(2).u64(1).u64(2).u32(0).u64(8)
	want.pad(8).str4("\xaa\xbb\x00\x00\x00\x00\x00\x00").str4("\x01\x02\x03\x04\x05\x06\x07\x08")
	require.Equal(t, want.b, got)
}

func TestWriteNoMetadata(t *testing.T) {
	t.Parallel()
	meta, tensors, err := parse("x", encode(t, nil, nil))
	require.NoError(t, err)
	require.Empty(t, meta.Keys())
	require.Empty(t, tensors)
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	one := Tensor{Name: "a", Type: TypeF32, Shape: []int{1}, Data: make([]byte, 4)}
	with := func(change func(*Tensor)) []Tensor {
		x := one
		change(&x)
		return []Tensor{x}
	}
	set := func(key string, v any) *Metadata {
		m := NewMetadata()
		m.Set(key, v)
		return m
	}
	cases := map[string]struct {
		meta    *Metadata
		tensors []Tensor
		want    string
	}{
		"value type":  {set("n", 1), nil, "metadata n: GGUF has no value type for the Go type int"},
		"empty key":   {set("", "x"), nil, `metadata key "": the name has 0 bytes`},
		"alignment":   {set("general.alignment", uint32(3)), nil, "the alignment 3 is not a power of two"},
		"tensor name": {nil, with(func(x *Tensor) { x.Name = "" }), "the name has 0 bytes"},
		"twice":       {nil, []Tensor{one, one}, `tensor "a" occurs twice`},
		"no shape":    {nil, with(func(x *Tensor) { x.Shape = nil }), "has 0 dimensions"},
		"zero":        {nil, with(func(x *Tensor) { x.Shape = []int{0} }), "each dimension must be at least 1"},
		"blocks":      {nil, with(func(x *Tensor) { x.Type, x.Shape = TypeQ80, []int{33} }), "cannot have type Q8_0, whose blocks have 32 weights"},
		"type":        {nil, with(func(x *Tensor) { x.Type = 9 }), "Q8_1 is not supported"},
		"in memory":   {nil, with(func(x *Tensor) { x.Type = TypeNVFP4F32 }), "NVFP4_F32 is not supported"},
		"data":        {nil, with(func(x *Tensor) { x.Data = nil }), `tensor "a": has 0 bytes of data, but shape [1] of F32 needs 4`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			require.ErrorContains(t, Write(&b, c.meta, c.tensors), c.want)
			require.Zero(t, b.Len())
		})
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteReportsWriter(t *testing.T) {
	t.Parallel()
	meta, tensors := sample()
	require.ErrorContains(t, Write(fullDisk{}, meta, tensors), "no space left")
}

// TestRoundTrip checks that reading a written file returns the same content.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		meta := NewMetadata()
		meta.Set("general.alignment", uint32(1)<<rapid.IntRange(0, 12).Draw(t, "alignment"))
		key := rapid.StringN(1, 20, 80)
		value := rapid.OneOf(
			rapid.Uint8().AsAny(), rapid.Int16().AsAny(), rapid.Uint64().AsAny(), rapid.Bool().AsAny(),
			rapid.String().AsAny(), rapid.SliceOf(rapid.String()).AsAny(), rapid.SliceOf(rapid.Int64()).AsAny(),
			rapid.SliceOf(rapid.Uint16()).AsAny(), rapid.SliceOf(rapid.Bool()).AsAny(),
			rapid.SliceOf(rapid.Float64()).AsAny(),
		)
		for k, v := range rapid.MapOfN(key, value, 0, 8).Draw(t, "metadata") {
			meta.Set(k, v)
		}
		var tensors []Tensor
		for _, name := range rapid.SliceOfNDistinct(key, 0, 6, rapid.ID[string]).Draw(t, "names") {
			tensors = append(tensors, drawTensor(t, name))
		}
		gotMeta, gotTensors, err := parse("x", encode(t, meta, tensors))
		require.NoError(t, err)
		require.Equal(t, meta, gotMeta)
		require.Len(t, gotTensors, len(tensors))
		for i := range tensors {
			require.Equal(t, tensors[i], gotTensors[i])
		}
	})
}

func drawTensor(t *rapid.T, name string) Tensor {
	typ := rapid.SampledFrom(FileTypes()).Draw(t, "type")
	shape := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 4).Draw(t, "shape")
	shape[0] *= typ.BlockSize()
	x := Tensor{Name: name, Type: typ, Shape: shape}
	n := x.Elements() / typ.BlockSize() * typ.BlockBytes()
	x.Data = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data")
	return x
}
