package gguf

import (
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// raw builds files byte by byte.
type raw struct{ b []byte }

func (r *raw) u32(v uint32) *raw { r.b = binary.LittleEndian.AppendUint32(r.b, v); return r }
func (r *raw) u64(v uint64) *raw { r.b = binary.LittleEndian.AppendUint64(r.b, v); return r }
func (r *raw) str4(s string) *raw {
	r.b = append(r.b, s...)
	return r
}
func (r *raw) str(s string) *raw { return r.u64(uint64(len(s))).str4(s) }
func (r *raw) pad(n int) *raw {
	for len(r.b)%n != 0 {
		r.b = append(r.b, 0)
	}
	return r
}

func head(tensors, keys uint64) *raw { return new(raw).str4("GGUF").u32(3).u64(tensors).u64(keys) }

// tensor appends an entry of one dimension.
func (r *raw) tensor(name string, n uint64, typ Type, offset uint64) *raw {
	return r.str(name).u32(1).u64(n).u32(uint32(typ)).u64(offset)
}

// zeros appends n zeros, so that the file is long enough for its counts.
func (r *raw) zeros(n int) *raw { r.b = append(r.b, make([]byte, n)...); return r }

// The first entry of a file starts at byte 24.
func TestMalformed(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		file   *raw
		field  string
		offset int64
		reason string
	}{
		"magic short":   {new(raw).str4("GG"), "magic", 0, "needs 4 bytes, the file has 2 left"},
		"magic":         {new(raw).str4("GGML").zeros(40), "magic", 0, `it begins with "GGML"`},
		"version 1":     {new(raw).str4("GGUF").u32(1).zeros(40), "version", 4, "1 is not supported"},
		"version 4":     {new(raw).str4("GGUF").u32(4).zeros(40), "version", 4, "4 is not supported"},
		"big-endian":    {new(raw).str4("GGUF").u32(3 << 24).zeros(40), "version", 4, "big-endian (version 3)"},
		"tensor count":  {head(math.MaxUint64, 0).zeros(40), "tensor count", 8, "more than the 48 bytes left"},
		"key count":     {head(0, 5).zeros(40), "key count", 16, "5 is more than the 40 bytes left"},
		"no key count":  {new(raw).str4("GGUF").u32(3).u64(0).u32(0), "key count", 16, "needs 8 bytes"},
		"key length":    {head(0, 1).u64(1 << 62).zeros(40), "key 0", 24, "more than the 40 bytes left"},
		"key empty":     {head(0, 1).str("").zeros(40), "key 0", 24, "has 0 bytes"},
		"key long":      {head(0, 1).u64(1 << 16).zeros(1<<16 + 40), "key 0", 24, "has 65536 bytes"},
		"key twice":     {head(0, 2).str("k").u32(0).str4("\x01").str("k").u32(0).zeros(9), "key 1", 38, `"k" occurs twice`},
		"kind":          {head(0, 1).str("k").u32(13).zeros(9), "k type", 33, "13 is not a known value type"},
		"value short":   {head(0, 1).str("k").u32(10).zeros(7), "k", 37, "needs 8 bytes, the file has 7 left"},
		"bool":          {head(0, 1).str("k").u32(7).str4("\x02"), "k", 37, "2 is not a boolean"},
		"string length": {head(0, 1).str("k").u32(8).u64(10).zeros(9), "k", 37, "10 is more than the 9 bytes left"},
		"array kind":    {head(0, 1).str("k").u32(9).u32(99).u64(0), "k element type", 37, "99 is not a known value type"},
		"nested":        {head(0, 1).str("k").u32(9).u32(9).u64(1).zeros(40), "k element type", 37, "arrays of arrays"},
		"array length":  {head(0, 1).str("k").u32(9).u32(4).u64(11).zeros(40), "k length", 41, "11 is more than the 40 bytes left"},
		"array strings": {head(0, 1).str("k").u32(9).u32(8).u64(2).str("ab").u64(1 << 63), "k[1]", 59, "does not fit in the 8 bytes left"},
		"array bools":   {head(0, 1).str("k").u32(9).u32(7).u64(3).str4("\x01\x00\x07"), "k[2]", 51, "7 is not a boolean"},

		"alignment 0":    {head(0, 1).str("general.alignment").u32(4).u32(0), "general.alignment", 24, "0 is not a power of two"},
		"alignment 24":   {head(0, 1).str("general.alignment").u32(4).u32(24), "general.alignment", 24, "24 is not a power of two"},
		"alignment huge": {head(0, 1).str("general.alignment").u32(10).u64(1 << 40), "general.alignment", 24, "not a power of two up to 2^31"},
		"alignment text": {head(0, 1).str("general.alignment").u32(8).str("32"), "general.alignment", 24, "the type is string, but must be an integer"},

		"name empty":   {head(1, 0).str("").zeros(80), "tensor 0 name", 24, "has 0 bytes"},
		"name twice":   {head(2, 0).tensor("a", 8, TypeF32, 0).tensor("a", 8, TypeF32, 32).zeros(80), "tensor 1 name", 57, `"a" occurs twice`},
		"no dims":      {head(1, 0).str("a").u32(0).zeros(80), `tensor "a" shape`, 33, "has 0 dimensions"},
		"many dims":    {head(1, 0).str("a").u32(5).zeros(80), `tensor "a" shape`, 33, "has 5 dimensions"},
		"dimension 0":  {head(1, 0).tensor("a", 0, TypeF32, 0).zeros(80), `tensor "a" shape`, 37, "dimension 0 is 0"},
		"overflow":     {head(1, 0).str("a").u32(2).u64(1 << 40).u64(1 << 40).zeros(80), `tensor "a" shape`, 45, "dimension 1 is 1099511627776"},
		"type":         {head(1, 0).tensor("a", 256, 9, 0).zeros(80), `tensor "a" type`, 45, "Q8_1 is not supported"},
		"in memory":    {head(1, 0).tensor("a", 256, TypeNVFP4F32, 0).zeros(200), `tensor "a" type`, 45, "NVFP4_F32 is not supported"},
		"type unknown": {head(1, 0).tensor("a", 256, 77, 0).zeros(80), `tensor "a" type`, 45, "type 77 is not supported"},
		"half a block": {head(1, 0).tensor("a", 48, TypeQ80, 0).zeros(80), `tensor "a" shape`, 33, "48 weights cannot have type Q8_0, whose blocks have 32 weights"},
		"too large":    {head(1, 0).tensor("a", 1<<40, TypeF32, 0).zeros(80), `tensor "a" shape`, 33, "takes more bytes than the file has (137)"},
		"info short":   {head(1, 0).str("a").u32(1).u64(8).u32(0).u32(0), `tensor "a" offset`, 49, "needs 8 bytes"},
		"misaligned":   {head(1, 0).tensor("a", 1, TypeF32, 16).zeros(80), `tensor "a" offset`, 49, "16 is not a multiple of the alignment 32"},
		"beyond":       {head(1, 0).tensor("a", 8, TypeF32, 1<<62).zeros(80), `tensor "a" offset`, 49, "are not in the file of 137 bytes"},
		"cut short":    {head(1, 0).tensor("a", 8, TypeF32, 0).pad(32).zeros(31), `tensor "a" offset`, 49, "truncated"},
		"no data":      {head(1, 0).tensor("a", 1, TypeF32, 0), `tensor "a" offset`, 49, "are not in the file of 57 bytes"},
		"overlap":      {head(2, 0).tensor("a", 16, TypeF32, 0).tensor("b", 8, TypeF32, 32).zeros(200), `tensor "b" offset`, 82, `32 lies within the data of tensor "a", which has 64 bytes from offset 0 on`},
		"same place":   {head(2, 0).tensor("a", 1, TypeF32, 32).tensor("b", 1, TypeF32, 32).zeros(200), `tensor "b" offset`, 82, `lies within the data of tensor "a"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := parse("dir/model.gguf", c.file.b)
			var format *FormatError
			require.ErrorAs(t, err, &format)
			require.Equal(t, "dir/model.gguf", format.Path)
			require.Equal(t, c.field, format.Field)
			require.Equal(t, c.offset, format.Offset)
			require.Contains(t, format.Reason, c.reason)
			require.Contains(t, err.Error(), "dir/model.gguf")
		})
	}
}

// An error does not have the whole of a long name.
func TestErrorsAboutLongNamesAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", maxNameBytes)
	for name, file := range map[string]*raw{
		"key twice":  head(0, 2).str(long).u32(0).str4("\x01").str(long).u32(0).zeros(9),
		"kind":       head(0, 1).str(long).u32(13).zeros(9),
		"name twice": head(2, 0).tensor(long, 8, TypeF32, 0).tensor(long, 8, TypeF32, 32).zeros(80),
		"many dims":  head(1, 0).str(long).u32(5).zeros(80),
		"overlap":    head(2, 0).tensor(long, 16, TypeF32, 0).tensor("b", 8, TypeF32, 32).zeros(200),
	} {
		_, _, err := parse("model.gguf", file.b)
		require.ErrorContains(t, err, "nnn", name)
		require.Less(t, len(err.Error()), 500, name)
	}
}

// TestHugeCounts is not parallel: it measures the allocations of the whole process.
func TestHugeCounts(t *testing.T) {
	const size = 1 << 20
	files := map[string]*raw{
		"tensors":    head(size/minTensorBytes, 0).zeros(size),
		"keys":       head(0, size/minKeyBytes).zeros(size),
		"array":      head(0, 1).str("k").u32(9).u32(12).u64(1 << 60).zeros(size),
		"strings":    head(0, 1).str("k").u32(9).u32(8).u64(size / 8).u64(1 << 40).zeros(size),
		"string":     head(0, 1).str("k").u32(8).u64(1 << 50).zeros(size),
		"dimensions": head(1, 0).str("a").u32(4).u64(1 << 15).u64(1 << 15).u64(1 << 15).u64(1 << 15).u32(0).u64(0).zeros(size),
	}
	for name, file := range files {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := parse("x", file.b)
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size), name)
	}
}

func TestVersion2(t *testing.T) {
	t.Parallel()
	want, wantTensors := sample()
	data := encode(t, want, wantTensors)
	data[4] = 2
	meta, tensors, err := parse("x", data)
	require.NoError(t, err)
	require.Equal(t, want, meta)
	require.Equal(t, wantTensors, tensors)
}

// TestEveryCut checks that no prefix of a file is accepted, unless only the padding after the last
// tensor is missing.
func TestEveryCut(t *testing.T) {
	t.Parallel()
	meta, tensors := sample()
	data := encode(t, meta, tensors)
	last := len(tensors[3].Data)
	end := len(data) - (int(alignUp(uint64(last), defaultAlignment)) - last)
	for n := range end {
		_, _, err := parse("x", data[:n])
		var format *FormatError
		require.ErrorAs(t, err, &format, "a file cut to %d bytes", n)
		require.LessOrEqual(t, format.Offset, int64(n))
	}
	_, _, err := parse("x", data[:end])
	require.NoError(t, err)
}

// TestDamage changes random bytes. The file must be refused, or the result must be well formed.
func TestDamage(t *testing.T) {
	t.Parallel()
	meta, tensors := sample()
	good := encode(t, meta, tensors)
	rapid.Check(t, func(t *rapid.T) {
		data := append([]byte(nil), good...)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		checkParsed(t, data)
	})
}

// checkParsed parses data. If that succeeds, it checks that the result is well formed and can be
// written and read again.
func checkParsed(t require.TestingT, data []byte) {
	meta, tensors, err := parse("x", data)
	if err != nil {
		var format *FormatError
		require.ErrorAs(t, err, &format)
		return
	}
	for _, x := range tensors {
		row, err := x.Type.RowBytes(x.Shape[0])
		require.NoError(t, err)
		require.Len(t, x.Data, row*(x.Elements()/x.Shape[0]))
	}
	if alignment, err := alignmentOf(meta); err != nil || alignment > 1<<16 {
		return // the padding of the written file would fill the disk
	}
	again, tensorsAgain, err := parse("x", encode(t, meta, tensors))
	require.NoError(t, err)
	require.Equal(t, meta.Keys(), again.Keys())
	require.Equal(t, tensors, tensorsAgain)
}

func FuzzParse(f *testing.F) {
	meta, tensors := sample()
	good := encode(f, meta, tensors)
	f.Add(good)
	f.Add(encode(f, nil, nil))
	f.Add(good[:len(good)/2])
	for _, at := range []int{4, 8, 16, 24, 40, 100, 200, 400, 600, 700} {
		data := append([]byte(nil), good...)
		data[at] ^= 0xff
		f.Add(data)
	}
	f.Add(head(1, 1).str("general.alignment").u32(4).u32(1).tensor("a", 256, TypeQ6K, 3).zeros(300).b)
	f.Fuzz(func(t *testing.T, data []byte) { checkParsed(t, data) })
}

// largeVocabulary returns the metadata of a 150,000-token model.
func largeVocabulary() *Metadata { return vocabulary(151_936) }

// vocabulary returns the metadata of a model of n tokens.
func vocabulary(n int) *Metadata {
	tokens, merges, kinds := make([]string, n), make([]string, n), make([]int32, n)
	for i := range n {
		tokens[i] = string(rune('!'+i%90)) + string(rune(0x4e00+i/90)) + "word"
		merges[i] = tokens[i] + " " + tokens[i]
		kinds[i] = int32(i % 6)
	}
	m := NewMetadata()
	m.Set("tokenizer.ggml.tokens", tokens)
	m.Set("tokenizer.ggml.merges", merges)
	m.Set("tokenizer.ggml.token_type", kinds)
	return m
}

// TestLargeVocabularyTakesLinearTime checks that 16 times as many tokens take less than 64 times as
// long; the expected factor is about 16. Other load on the machine can only make a try longer, so
// one good try of several is enough.
func TestLargeVocabularyTakesLinearTime(t *testing.T) {
	took := func(m *Metadata) time.Duration {
		data := encode(t, m, nil)
		start := time.Now()
		_, _, err := parse("x", data)
		took := time.Since(start)
		require.NoError(t, err)
		return took
	}
	small, large := vocabulary(151_936/16), largeVocabulary()
	var ratio float64
	for range 20 {
		if ratio = float64(took(large)) / float64(took(small)); ratio < 64 {
			return
		}
	}
	require.Less(t, ratio, 64.)
}

func BenchmarkParseLargeVocabulary(b *testing.B) {
	data := encode(b, largeVocabulary(), nil)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, _, err := parse("x", data); err != nil {
			b.Fatal(err)
		}
	}
}
