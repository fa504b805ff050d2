package gguf

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeParts writes the sample divided into three files, as llama.cpp's gguf-split does: the first
// has the metadata and no tensors. It returns the paths.
func writeParts(t *testing.T) []string {
	t.Helper()
	meta, tensors := sample()
	dir := t.TempDir()
	var paths []string
	for i, part := range [][]Tensor{nil, tensors[:3], tensors[3:]} {
		if i > 0 {
			meta = NewMetadata()
		}
		meta.Set("split.no", uint16(i))
		meta.Set("split.count", uint16(3))
		meta.Set("split.tensors.count", int32(len(tensors)))
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("big-%05d-of-00003.gguf", i+1)))
		out, err := os.Create(paths[i])
		require.NoError(t, err)
		require.NoError(t, Write(out, meta, part))
		require.NoError(t, out.Close())
	}
	return paths
}

func TestParts(t *testing.T) {
	t.Parallel()
	paths := writeParts(t)
	f, err := Open(paths[0])
	require.NoError(t, err)
	require.Equal(t, paths, f.Paths())
	arch, err := f.Meta().String("general.architecture")
	require.NoError(t, err)
	require.Equal(t, "llama", arch)
	_, want := sample()
	require.Equal(t, want, f.Tensors())
	size := int64(0)
	for _, path := range paths {
		st, err := os.Stat(path)
		require.NoError(t, err)
		size += st.Size()
	}
	require.Equal(t, size, f.Size())
	for _, x := range want {
		got, ok := f.Tensor(x.Name)
		require.True(t, ok)
		require.NoError(t, f.ReleaseTensor(got))
		require.Equal(t, x.Data, got.Data)
	}
	require.NoError(t, f.Release())
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
}

func TestPartsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, paths []string) (open string)
		want   string
	}{
		"not the first": {func(_ *testing.T, paths []string) string { return paths[1] }, "is file 2 of 3 of a model: open the first file, whose name ends in -00001-of-00003.gguf"},
		"renamed": {func(t *testing.T, paths []string) string {
			t.Helper()
			other := filepath.Join(filepath.Dir(paths[0]), "model.gguf")
			require.NoError(t, os.Rename(paths[0], other))
			return other
		}, "does not end in -00001-of-00003.gguf: rename it"},
		"missing": {func(t *testing.T, paths []string) string {
			t.Helper()
			require.NoError(t, os.Remove(paths[2]))
			return paths[0]
		}, "file 3 of 3 of the model is missing: open "},
		"exchanged": {func(t *testing.T, paths []string) string {
			t.Helper()
			require.NoError(t, os.Rename(paths[1], paths[2]))
			require.NoError(t, os.Link(paths[2], paths[1]))
			return paths[0]
		}, "big-00003-of-00003.gguf: by its name, this is file 3 of 3 of a model"},
		"cut": {func(t *testing.T, paths []string) string {
			t.Helper()
			require.NoError(t, os.Truncate(paths[1], 100))
			return paths[0]
		}, "big-00002-of-00003.gguf"},
		"fewer tensors": {func(t *testing.T, paths []string) string {
			t.Helper()
			meta := NewMetadata()
			meta.Set("split.no", uint16(2))
			meta.Set("split.count", uint16(3))
			out, err := os.Create(paths[2])
			require.NoError(t, err)
			require.NoError(t, Write(out, meta, nil))
			require.NoError(t, out.Close())
			return paths[0]
		}, "have 3 tensors together, but the metadata of the first file require 4"},
		"a tensor twice": {func(t *testing.T, paths []string) string {
			t.Helper()
			_, tensors := sample()
			meta := NewMetadata()
			meta.Set("split.no", uint16(2))
			meta.Set("split.count", uint16(3))
			out, err := os.Create(paths[2])
			require.NoError(t, err)
			require.NoError(t, Write(out, meta, tensors[:1]))
			require.NoError(t, out.Close())
			return paths[0]
		}, `contains tensor "token_embd.weight", which an earlier file of the model also contains`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(c.change(t, writeParts(t)))
			require.ErrorContains(t, err, c.want)
		})
	}
}
