package hub

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/hub/hubtest"
)

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// TestSplitSet: all files of a split set are pulled, with a list of files in several pages. The
// set's quantisation then finds the first file.
func TestSplitSet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	files := map[string][]byte{"README.md": []byte("x"), "Q8_0/m-Q8_0.gguf": []byte("other")}
	for i := range 3 {
		files[fmt.Sprintf("Q4_K_M/m-Q4_K_M-%05d-of-00003.gguf", i+1)] = hubtest.Random(uint64(i), 1000+i)
	}
	b.Add("user/split-GGUF", &hubtest.Repo{Files: files, PerPage: 2})
	got, err := b.pull(t, "user/split-GGUF:q4_k_m")
	require.NoError(t, err)
	require.Equal(t, 3, got.Files)
	for i := range 3 {
		name := fmt.Sprintf("m-Q4_K_M-%05d-of-00003.gguf", i+1)
		data, err := os.ReadFile(filepath.Join(filepath.Dir(got.Path), name))
		require.NoError(t, err)
		require.Equal(t, files["Q4_K_M/"+name], data)
		target, err := os.Readlink(filepath.Join(filepath.Dir(got.Path), name))
		require.NoError(t, err)
		require.Equal(t, "../../../blobs/"+hubtest.SHA256(data), target)
	}
	found, err := Store{b.env}.Find(parse(t, "user/split-GGUF:Q4_K_M"))
	require.NoError(t, err)
	require.Equal(t, got.Path, found.Path)

	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(got.Path), "m-Q4_K_M-00002-of-00003.gguf")))
	_, err = Store{b.env}.Find(parse(t, "user/split-GGUF:Q4_K_M"))
	require.ErrorIs(t, err, ErrNotHere)
	require.ErrorContains(t, err, "download it with: ingot pull user/split-GGUF:Q4_K_M")
}

// TestASmallFile: a file outside of LFS comes from the hub itself, and its hash is that of git.
func TestASmallFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	data := hubtest.Random(5, 3*blockSize+1)
	b.Add("user/small-GGUF", &hubtest.Repo{Files: map[string][]byte{"s.gguf": data}, Small: map[string]bool{"s.gguf": true}})
	got, err := b.pull(t, "user/small-GGUF")
	require.NoError(t, err)
	b.requireModel(t, got, data)
	target, err := os.Readlink(got.Path)
	require.NoError(t, err)
	require.Equal(t, hubtest.GitSHA1(data), filepath.Base(target))
}

// TestANewVersion: pull downloads a repository's new version, except for files that did not change.
// The old version stays.
func TestANewVersion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := b.pull(t, modelName)
	require.NoError(t, err)
	_, err = b.pull(t, modelName+":Q8_0")
	require.NoError(t, err)
	newer := hubtest.Random(9, 4000)
	b.Add(modelName, &hubtest.Repo{Commit: strings.Repeat("d", 40), Files: map[string][]byte{"model-Q4_K_M.gguf": b.model, "model-Q6_K.gguf": newer}})
	second, err := b.pull(t, modelName)
	require.NoError(t, err)
	require.Zero(t, second.Moved, "the file did not change")
	require.NotEqual(t, first.Path, second.Path)
	b.requireModel(t, second, b.model)

	store := Store{b.env}
	found, err := store.Find(parse(t, modelName))
	require.NoError(t, err)
	require.Equal(t, second.Path, found.Path, "the newest version is found")
	found, err = store.Find(parse(t, modelName+":Q8_0"))
	require.NoError(t, err)
	require.Equal(t, first.Commit, found.Commit, "only the old version has the file")
	found, err = store.Find(parse(t, modelName+"@"+first.Commit))
	require.NoError(t, err)
	require.Equal(t, first.Path, found.Path)
	_, err = store.Find(parse(t, modelName+":Q6_K"))
	require.ErrorContains(t, err, `no model matches "Q6_K"; found: user/model-GGUF:Q4_K_M; download it with: ingot pull user/model-GGUF:Q6_K`)
	_, err = store.Find(parse(t, modelName+"@dev"))
	require.ErrorIs(t, err, ErrNotHere)
}

// TestNoRequest: a cached model is pulled without a request if the name has a commit, or if
// HF_HUB_OFFLINE is set.
func TestNoRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got, err := b.pull(t, modelName)
	require.NoError(t, err)
	n := len(b.Requests())
	again, err := b.pull(t, modelName+"@"+got.Commit+":Q4_K_M")
	require.NoError(t, err)
	require.Equal(t, got.Path, again.Path)
	b.env.Offline = true
	again, err = b.pull(t, modelName)
	require.NoError(t, err)
	require.Equal(t, got.Path, again.Path)
	require.Len(t, b.Requests(), n)

	b.env.Offline, b.env.Endpoint = false, "http://127.0.0.1:1"
	_, err = b.pull(t, modelName)
	require.ErrorContains(t, err, "reach 127.0.0.1:1: ")
	require.ErrorContains(t, err, "a version of the model is on this machine, and --model user/model-GGUF uses it")
}

// TestRevisions: a branch name may contain slashes, and its commit is stored.
func TestRevisions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Add("user/pr-GGUF", &hubtest.Repo{Branches: []string{"refs/pr/7"}, Files: map[string][]byte{"a-Q8_0.gguf": []byte("GGUF")}})
	got, err := b.pull(t, "user/pr-GGUF@refs/pr/7")
	require.NoError(t, err)
	ref, err := os.ReadFile(filepath.Join(b.env.Cache, "models--user--pr-GGUF", "refs", "refs", "pr", "7"))
	require.NoError(t, err)
	require.Equal(t, got.Commit, string(ref))
	found, err := Store{b.env}.Find(parse(t, "user/pr-GGUF@refs/pr/7:Q8_0"))
	require.NoError(t, err)
	require.Equal(t, got.Path, found.Path)
}

// TestFilesOfPython: files that Hugging Face's Python library has put into the cache are found and
// not downloaded again.
func TestFilesOfPython(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dir := filepath.Join(b.env.Cache, "models--user--model-GGUF")
	commit := strings.Repeat("c0ffee0123", 4)
	sum := hubtest.SHA256(b.model)
	put(t, filepath.Join(dir, "blobs", sum), b.model)
	put(t, filepath.Join(dir, "blobs", sum+".0a1b2c3d.incomplete"), []byte("of another process"))
	put(t, filepath.Join(dir, "refs", "main"), []byte(commit))
	put(t, filepath.Join(dir, ".no_exist", commit, "config.json"), nil)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "snapshots", commit), 0o755))
	require.NoError(t, os.Symlink("../../blobs/"+sum, filepath.Join(dir, "snapshots", commit, "model-Q4_K_M.gguf")))
	found, err := Store{b.env}.Find(parse(t, modelName))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "snapshots", commit, "model-Q4_K_M.gguf"), found.Path)
	got, err := b.pull(t, modelName)
	require.NoError(t, err)
	require.Zero(t, got.Moved)
	require.Equal(t, found.Path, got.Path)
}

// foreignStoresOf makes folders with a model in the layout of LM Studio and of ollama.
func foreignStoresOf(t *testing.T, model []byte) []Foreign {
	t.Helper()
	lm, ollama := t.TempDir(), t.TempDir()
	put(t, filepath.Join(lm, "user", "lm-GGUF", "lm-Q4_K_M.gguf"), model)
	sum := hubtest.SHA256(model)
	put(t, filepath.Join(ollama, "blobs", "sha256-"+sum), model)
	manifest := fmt.Sprintf(`{"layers":[{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:00","size":1},
		{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s","size":%d}]}`, sum, len(model))
	for _, p := range []string{"registry.ollama.ai/library/tiny/1b", "registry.ollama.ai/library/tiny/latest", "registry.ollama.ai/me/own/v1", "hf.co/User/Olla-GGUF/Q4_K_M"} {
		put(t, filepath.Join(ollama, "manifests", filepath.FromSlash(p)), []byte(manifest))
	}
	put(t, filepath.Join(ollama, filepath.FromSlash("manifests/registry.ollama.ai/library/tensors/latest")), []byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.tensor"}]}`))
	put(t, filepath.Join(ollama, filepath.FromSlash("manifests/registry.ollama.ai/library/gone/latest")), []byte(strings.ReplaceAll(manifest, sum, strings.Repeat("0", 64))))
	return []Foreign{{ownerLMStudio, lm}, {ownerOllama, ollama}}
}

func TestModelsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.env.Stores = foreignStoresOf(t, b.model)
	store := Store{b.env}
	for name, owner := range map[string]string{
		"user/lm-GGUF":                       ownerLMStudio,
		"user/lm-GGUF:Q4_K_M":                ownerLMStudio,
		"hf.co/user/olla-gguf:q4_k_m":        ownerOllama,
		"user/Olla-GGUF":                     ownerOllama,
		"ollama:tiny":                        ownerOllama,
		"ollama:tiny:1b":                     ownerOllama,
		"ollama:me/own:v1":                   ownerOllama,
		"ollama:hf.co/user/olla-gguf:Q4_K_M": ownerOllama,
	} {
		found, err := store.Find(parse(t, name))
		require.NoError(t, err, name)
		require.Equal(t, owner, found.Owner, name)
		b.requireModel(t, found, b.model)
	}
	for name, want := range map[string]string{
		"ollama:none":       "ollama:none; pull it with ollama",
		"ollama:gone":       "ollama:gone; pull it with ollama",
		"ollama:tensors":    "the model's file is not in GGUF",
		"user/lm-GGUF:Q8_0": "is not on this machine",
		"user/lm-GGUF@v1":   "is not on this machine",
	} {
		_, err := store.Find(parse(t, name))
		require.ErrorContains(t, err, want, name)
	}

	// Another program's file is used if it has the hub's hash. Otherwise the model is downloaded.
	b.Add("user/lm-GGUF", &hubtest.Repo{Files: map[string][]byte{"lm-Q4_K_M.gguf": b.model}})
	got, err := b.pull(t, "user/lm-GGUF")
	require.NoError(t, err)
	require.Equal(t, ownerLMStudio, got.Owner)
	other := hubtest.Random(7, len(b.model))
	b.Add("User/Olla-GGUF", &hubtest.Repo{Files: map[string][]byte{"o-Q4_K_M.gguf": other}})
	got, err = b.pull(t, "User/Olla-GGUF")
	require.NoError(t, err)
	require.Empty(t, got.Owner)
	b.requireModel(t, got, other)

	// Files of other programs are not deleted.
	_, _, err = store.Remove(parse(t, "ollama:tiny"))
	require.ErrorContains(t, err, `the model belongs to ollama; use "ollama list" and "ollama rm"`)
	_, _, err = store.Remove(parse(t, "user/lm-GGUF"))
	require.ErrorContains(t, err, "the model belongs to LM Studio; remove it there, or delete ")
	var names []string
	for _, m := range store.List() {
		names = append(names, m.Owner+" "+m.Name)
	}
	require.Equal(t, []string{
		"cache User/Olla-GGUF:Q4_K_M", "LM Studio user/lm-GGUF:Q4_K_M", "ollama ollama:hf.co/User/Olla-GGUF:Q4_K_M", "ollama ollama:me/own:v1",
		"ollama ollama:tiny:1b", "ollama ollama:tiny:latest",
	}, names)
	for _, m := range store.List() {
		found, err := store.Find(parse(t, m.Name))
		require.NoError(t, err, "every listed name is a valid name")
		require.Equal(t, m.Bytes, found.Bytes)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := Store{b.env}
	for _, name := range []string{modelName, modelName + ":Q8_0"} {
		_, err := b.pull(t, name)
		require.NoError(t, err)
	}
	b.Add(modelName, &hubtest.Repo{Commit: strings.Repeat("d", 40), Files: map[string][]byte{"model-Q4_K_M.gguf": b.model}})
	first, err := store.Find(parse(t, modelName))
	require.NoError(t, err)
	_, err = b.pull(t, modelName)
	require.NoError(t, err)
	// A snapshot that is newer than that of branch main changes nothing.
	require.NoError(t, os.Chtimes(filepath.Dir(first.Path), time.Time{}, time.Now().Add(time.Hour)))

	m, freed, err := store.Remove(parse(t, modelName+":Q4_K_M"))
	require.NoError(t, err)
	require.EqualValues(t, len(b.model), freed)
	require.Equal(t, modelName+":Q4_K_M", m.Name)
	_, err = store.Find(parse(t, modelName+":Q4_K_M"))
	require.ErrorIs(t, err, ErrNotHere, "no snapshot has the model any more")
	dir := filepath.Join(b.env.Cache, "models--user--model-GGUF")
	blobs, err := os.ReadDir(filepath.Join(dir, "blobs"))
	require.NoError(t, err)
	require.Len(t, blobs, 1)
	_, err = store.Find(parse(t, modelName+":Q8_0"))
	require.NoError(t, err, "the other model stays")
	_, _, err = store.Remove(parse(t, modelName+":Q8_0"))
	require.NoError(t, err)
	require.NoDirExists(t, dir)
	require.Empty(t, store.List())

	// An unfinished download.
	b = setup(t)
	b.Bytes = status(http.StatusNotFound)
	_, err = b.pull(t, modelName)
	require.Error(t, err)
	store = Store{b.env}
	require.Len(t, store.Unfinished(), 1)
	require.Equal(t, modelName, store.Unfinished()[0].Name)
	unlock, err := b.env.repoDir(parse(t, modelName)).lock(t.Context(), hubtest.SHA256(b.model), nil)
	require.NoError(t, err)
	_, _, err = store.Remove(parse(t, modelName))
	require.ErrorContains(t, err, "another process is downloading the model")
	unlock()
	_, _, err = store.Remove(parse(t, modelName))
	require.NoError(t, err)
	require.Empty(t, store.Unfinished())
	_, _, err = store.Remove(parse(t, modelName))
	require.ErrorIs(t, err, ErrNotHere)

	file := filepath.Join(t.TempDir(), "mine.gguf")
	put(t, file, []byte("GGUF"))
	_, _, err = store.Remove(parse(t, file))
	require.ErrorContains(t, err, "it is not in a folder of pulled models; delete the file itself")
	require.FileExists(t, file)
}

// TestWeb pulls a file from a web server, with and without its hash.
func TestWeb(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.env.Token = "secret"
	address := b.CDN + "/model.gguf"
	b.Bytes = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/model.gguf" {
			return false
		}
		r.URL.Path = "/" + hubtest.SHA256(b.model)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.Blob(r)))
		return true
	}
	_, err := b.pull(t, address+"#sha256="+strings.Repeat("0", 64))
	require.ErrorContains(t, err, "the file's hash is "+hubtest.SHA256(b.model))
	got, err := b.pull(t, address+"#sha256="+hubtest.SHA256(b.model))
	require.NoError(t, err)
	b.requireModel(t, got, b.model)
	require.Equal(t, "model.gguf", filepath.Base(got.Path))
	again, err := b.pull(t, address)
	require.NoError(t, err)
	require.Zero(t, again.Moved)
	found, err := Store{b.env}.Find(parse(t, address))
	require.NoError(t, err)
	require.Equal(t, got.Path, found.Path)
	_, err = b.pull(t, address+"#sha256="+strings.Repeat("0", 64))
	require.ErrorContains(t, err, "the downloaded file has the hash "+hubtest.SHA256(b.model))
	for _, r := range b.Requests() {
		require.Empty(t, r.Auth, "only the hub gets the token")
	}
	_, err = b.pull(t, b.CDN+"/none.gguf")
	require.ErrorContains(t, err, "answers 403 Forbidden")
	require.Len(t, Store{b.env}.List(), 1)
	_, freed, err := Store{b.env}.Remove(parse(t, address))
	require.NoError(t, err)
	require.EqualValues(t, len(b.model), freed)
	_, err = Store{b.env}.Find(parse(t, address))
	require.ErrorIs(t, err, ErrNotHere)
}

func TestReadEnv(t *testing.T) {
	home := t.TempDir()
	for _, v := range []string{"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT",
		"HF_HUB_OFFLINE", "HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "OLLAMA_MODELS"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
	e := ReadEnv()
	require.Equal(t, DefaultEndpoint, e.Endpoint)
	require.Equal(t, filepath.Join(home, filepath.FromSlash(".cache/huggingface/hub")), e.Cache)
	require.Empty(t, e.Token)
	require.False(t, e.Offline)
	put(t, filepath.Join(home, filepath.FromSlash(".cache/huggingface/token")), []byte("from-file\n"))
	require.Equal(t, "from-file", ReadEnv().Token)
	t.Setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
	require.Empty(t, ReadEnv().Token)
	t.Setenv("HUGGING_FACE_HUB_TOKEN", "old")
	require.Equal(t, "old", ReadEnv().Token)
	t.Setenv("HF_TOKEN", "new")
	e = ReadEnv()
	require.Equal(t, "new", e.Token)
	require.Equal(t, "HF_TOKEN", e.TokenAt)
	t.Setenv("XDG_CACHE_HOME", "/xdg")
	require.Equal(t, "/xdg/huggingface/hub", ReadEnv().Cache)
	t.Setenv("HF_HOME", "~/hf")
	require.Equal(t, filepath.Join(home, filepath.FromSlash("hf/hub")), ReadEnv().Cache)
	t.Setenv("HUGGINGFACE_HUB_CACHE", "/older")
	require.Equal(t, "/older", ReadEnv().Cache)
	t.Setenv("HF_HUB_CACHE", "/cache")
	t.Setenv("HF_ENDPOINT", "https://mirror.example/")
	t.Setenv("HF_HUB_OFFLINE", "true")
	t.Setenv("HF_HUB_DOWNLOAD_TIMEOUT", "2.5")
	t.Setenv("OLLAMA_MODELS", home)
	e = ReadEnv()
	require.Equal(t, "/cache", e.Cache)
	require.Equal(t, "https://mirror.example", e.Endpoint)
	require.True(t, e.mirrored())
	require.True(t, e.Offline)
	require.Equal(t, 2500*time.Millisecond, e.Timeout)
	require.Contains(t, e.Stores, Foreign{ownerOllama, home})
}
