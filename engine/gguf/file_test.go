package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample returns the content of a small file: metadata of all value types, and four tensors.
func sample() (*Metadata, []Tensor) {
	m := NewMetadata()
	m.Set("general.architecture", "llama")
	m.Set("u8", uint8(200))
	m.Set("i8", int8(-3))
	m.Set("u16", uint16(60000))
	m.Set("i16", int16(-300))
	m.Set("u32", uint32(4_000_000_000))
	m.Set("i32", int32(-70000))
	m.Set("u64", uint64(1<<63))
	m.Set("i64", int64(-1<<40))
	m.Set("f32", float32(0.5))
	m.Set("f64", 0.1)
	m.Set("yes", true)
	m.Set("no", false)
	m.Set("empty", "")
	m.Set("strings", []string{"a", "", "ünï", "\x00\xff"})
	m.Set("u8s", []uint8{1, 2})
	m.Set("i8s", []int8{-1, 2})
	m.Set("u16s", []uint16{1, 2})
	m.Set("i16s", []int16{-1, 2})
	m.Set("u32s", []uint32{1, 2})
	m.Set("i32s", []int32{-1, 2})
	m.Set("u64s", []uint64{1, 2})
	m.Set("i64s", []int64{-1, 2})
	m.Set("f32s", []float32{0.5, -2})
	m.Set("f64s", []float64{0.5, -2})
	m.Set("bools", []bool{true, false, true})
	m.Set("nothing", []string{})
	return m, []Tensor{
		{Name: "token_embd.weight", Type: TypeF32, Shape: []int{3, 2}, Data: counting(24)},
		{Name: "norm.weight", Type: TypeF16, Shape: []int{5}, Data: counting(10)},
		{Name: "blk.0.ffn_up.weight", Type: TypeQ80, Shape: []int{64, 2, 2}, Data: counting(4 * 68)},
		{Name: "blk.0.ffn_down.weight", Type: TypeQ4K, Shape: []int{256, 1, 1, 2}, Data: counting(288)},
	}
}

func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func writeTemp(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func TestOpen(t *testing.T) {
	t.Parallel()
	meta, tensors := sample()
	data := encode(t, meta, tensors)
	path := writeTemp(t, data)

	f, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, path, f.Path())
	require.Equal(t, int64(len(data)), f.Size())
	require.Equal(t, meta, f.Meta())
	require.Equal(t, tensors, f.Tensors())

	got, ok := f.Tensor("blk.0.ffn_up.weight")
	require.True(t, ok)
	require.Equal(t, tensors[2], got)
	require.Equal(t, 256, got.Elements())
	_, ok = f.Tensor("blk.1.ffn_up.weight")
	require.False(t, ok)

	require.NoError(t, f.Close())
	require.NoError(t, f.Close(), "closing twice")
	require.Equal(t, meta, f.Meta(), "metadata are usable after Close")
	require.Equal(t, int64(len(data)), f.Size())
	_, ok = f.Tensor("norm.weight")
	require.False(t, ok, "a closed file has no tensors")
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "absent.gguf"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "absent.gguf")

	_, err = Open(dir)
	require.ErrorContains(t, err, "not a regular file")

	_, err = Open(writeTemp(t, nil))
	require.ErrorContains(t, err, "model.gguf is empty")

	path := writeTemp(t, []byte("PK\x03\x04 something else"))
	_, err = Open(path)
	var format *FormatError
	require.ErrorAs(t, err, &format)
	require.Equal(t, path, format.Path)
	require.ErrorContains(t, err, "not a GGUF file")
}

// TestOpenPublicFiles reads files that other programs wrote.
func TestOpenPublicFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../model/testdata/*.gguf")
	require.NoError(t, err)
	more, err := filepath.Glob("../../models/*.gguf")
	require.NoError(t, err)
	paths = append(paths, more...)
	for _, dir := range []string{os.Getenv("INGOT_MODELS"), os.Getenv("INGOT_VECTORS"), os.Getenv("INGOT_VECTORS") + "/tokenizers"} {
		if !strings.HasPrefix(dir, "/") {
			continue
		}
		more, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
		require.NoError(t, err)
		paths = append(paths, more...)
	}
	require.NotEmpty(t, paths)
	for _, path := range paths {
		f, err := Open(path)
		require.NoError(t, err)
		arch, err := f.Meta().String("general.architecture")
		require.NoError(t, err)
		require.NotEmpty(t, arch)
		for _, x := range f.Tensors() {
			row, err := x.Type.RowBytes(x.Shape[0])
			require.NoError(t, err)
			require.Len(t, x.Data, row*x.Elements()/x.Shape[0], x.Name)
		}
		require.NoError(t, f.Close())
	}
}

func TestReleaseKeepsTheFileReadable(t *testing.T) {
	t.Parallel()
	f, err := Open(filepath.Join("..", "model", "testdata", "micro-llama.gguf"))
	require.NoError(t, err)
	before := bytes.Clone(f.Tensors()[0].Data)
	require.NoError(t, f.Release())
	require.Equal(t, before, f.Tensors()[0].Data)
	require.NoError(t, f.Close())
	require.NoError(t, f.Release(), "a closed file has nothing to release")
}
