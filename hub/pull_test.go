package hub

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/hub/hubtest"
)

// bundle is a hub with a model, and the settings of a machine with an empty cache.
type bundle struct {
	*hubtest.Server
	env   Env
	model []byte // content of user/model-GGUF:model-Q4_K_M.gguf, larger than two spans

	mu    sync.Mutex
	notes []string
}

// note is called by several connections at once.
func (b *bundle) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, text)
}

const modelName = "user/model-GGUF"

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{Server: hubtest.New(t), model: hubtest.Random(1, 2*blockSize+12345)}
	b.Add(modelName, &hubtest.Repo{Files: map[string][]byte{
		"model-Q4_K_M.gguf": b.model, "model-Q8_0.gguf": hubtest.Random(2, 1000), "README.md": []byte("# A model"),
	}})
	dir := t.TempDir()
	b.env = Env{
		Endpoint: b.URL, Cache: filepath.Join(dir, "hub"), URLs: filepath.Join(dir, "urls"), Timeout: 10 * time.Second,
	}
	return b
}

// puller returns a Puller that never waits between attempts.
func (b *bundle) puller() *Puller {
	p := NewPuller(Options{Env: b.env, Version: "test", Note: b.note})
	p.client.wait = noWait
	return p
}

func (b *bundle) pull(t *testing.T, name string) (Pulled, error) {
	t.Helper()
	return b.puller().Pull(t.Context(), parse(t, name))
}

func parse(t *testing.T, name string) Name {
	t.Helper()
	n, err := ParseName(name)
	require.NoError(t, err)
	return n
}

// requireModel checks that a pulled model has the right content and is found, and that no other
// file is left.
func (b *bundle) requireModel(t *testing.T, got Pulled, want []byte) {
	t.Helper()
	bytes, err := os.ReadFile(got.Path)
	require.NoError(t, err)
	require.Equal(t, hubtest.SHA256(want), hubtest.SHA256(bytes))
	partials, err := filepath.Glob(filepath.Join(b.env.Cache, "*", "blobs", "*.*"))
	require.NoError(t, err)
	require.Empty(t, partials)
}

func TestPull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got, err := b.pull(t, modelName)
	require.NoError(t, err)
	b.requireModel(t, got, b.model)
	dir := filepath.Join(b.env.Cache, "models--user--model-GGUF")
	commit := got.Commit
	require.Equal(t, filepath.Join(dir, "snapshots", commit, "model-Q4_K_M.gguf"), got.Path)
	target, err := os.Readlink(got.Path)
	require.NoError(t, err)
	require.Equal(t, "../../blobs/"+hubtest.SHA256(b.model), target)
	ref, err := os.ReadFile(filepath.Join(dir, "refs", "main"))
	require.NoError(t, err)
	require.Equal(t, commit, string(ref))
	require.EqualValues(t, len(b.model), got.Moved)

	again, err := b.pull(t, modelName)
	require.NoError(t, err)
	require.Zero(t, again.Moved)
	n := len(b.Requests())
	found, err := Store{b.env}.Find(parse(t, modelName))
	require.NoError(t, err)
	require.Equal(t, got.Path, found.Path)
	require.Len(t, b.Requests(), n, "no request is made")
}
