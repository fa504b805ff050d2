package hub

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/hub/hubtest"
)

// A partial file continues with the blocks that it has, if it has the length of this file. Nothing
// of another file is used, also when it is opened again.
func TestPartialFiles(t *testing.T) {
	t.Parallel()
	const size, blocks = 2*blockSize + 5, 3
	whole := append(bytes.Repeat([]byte{7}, size), 1, 0, 1)
	for name, c := range map[string]struct {
		before []byte // content of the file; nil if it does not exist
		have   []bool
		bytes  int64
	}{
		"no file":             {nil, []bool{false, false, false}, 0},
		"two blocks":          {whole, []bool{true, false, true}, blockSize + 5},
		"unknown flags":       {append(bytes.Clone(whole[:size]), 2, 1, 255), []bool{false, true, false}, blockSize},
		"a byte more":         {bytes.Repeat([]byte{1}, size+blocks+1), []bool{false, false, false}, 0},
		"a byte fewer":        {bytes.Repeat([]byte{1}, size+blocks-1), []bool{false, false, false}, 0},
		"a much shorter file": {[]byte{1, 1, 1}, []bool{false, false, false}, 0},
		"a much longer file":  {bytes.Repeat([]byte{1}, 2*size), []bool{false, false, false}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "partial")
			if c.before != nil {
				require.NoError(t, os.WriteFile(path, c.before, 0o600))
			}
			for range 2 {
				p, err := openPartial(path, size)
				require.NoError(t, err)
				for i, want := range c.have {
					require.Equal(t, want, p.has(i), "block %d", i)
					require.Equal(t, want, p.claimed[i], "block %d", i)
				}
				require.Equal(t, c.bytes, p.bytes.Load())
				require.NoError(t, p.file.Close())
			}
		})
	}
}

// Blocks are written in any order, each is claimed once, and the file has its hash.
func TestBlocksOfAPartialFile(t *testing.T) {
	t.Parallel()
	data := hubtest.Random(1, 3*blockSize+9)
	path := filepath.Join(t.TempDir(), "partial")
	p, err := openPartial(path, int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, []int64{blockSize, blockSize, blockSize, 9}, []int64{p.length(0), p.length(1), p.length(2), p.length(3)})
	first, ok := p.claim(1)
	require.Equal(t, []any{span{0, 1}, true}, []any{first, ok})
	p.claimed[2] = true
	second, ok := p.claim(5)
	require.Equal(t, []any{span{1, 2}, true}, []any{second, ok}, "a span ends before a block that another connection has")
	last, ok := p.claim(5)
	require.Equal(t, []any{span{3, 4}, true}, []any{last, ok})
	_, ok = p.claim(1)
	require.False(t, ok)
	for _, i := range []int{3, 1, 0, 2} {
		require.False(t, p.has(i))
		require.NoError(t, p.write(i, data[i*blockSize:min(len(data), (i+1)*blockSize)]))
		require.True(t, p.has(i))
	}
	require.EqualValues(t, len(data), p.bytes.Load())
	sum, err := p.sum(sha256.New())
	require.NoError(t, err)
	require.Equal(t, hubtest.SHA256(data), sum)
	git, err := p.sum(newHash(hubtest.GitSHA1(data), int64(len(data))))
	require.NoError(t, err)
	require.Equal(t, hubtest.GitSHA1(data), git)
	require.NoError(t, p.complete())
	require.NoError(t, p.file.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, text), "the file has nothing but its content")

	p, err = openPartial(filepath.Join(t.TempDir(), "other"), blockSize+1)
	require.NoError(t, err)
	defer p.file.Close()
	require.NoError(t, p.write(0, data[:blockSize]))
	p.stop()
	require.True(t, p.waitFor(0))
	require.False(t, p.waitFor(1))
	_, err = p.sum(sha256.New())
	require.ErrorIs(t, err, errStopped)
	p.claimAll()
	_, ok = p.claim(1)
	require.False(t, ok)
}
