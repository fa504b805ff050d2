package eval

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ingot-run/ingot/openai"
)

func fileSum(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read a run: %w", err)
	}
	return sum(string(data)), nil
}

// replaceFile replaces a file atomically: readers see either the old content or the new one.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // fails after a success, since the file was renamed
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// batchFile is the name of the file with the id of the batch of a run's requests.
const batchFile = "batch"

// StoredID returns the id of the batch that answers are fetched from. The first call for a file of
// answers makes the id with fresh, and stores it in the run's directory.
func StoredID(answers string, fresh func() string) (string, error) {
	name := batchFile
	if filepath.Base(answers) == JudgeAnswersFile {
		name = "judge_batch"
	}
	path := filepath.Join(filepath.Dir(answers), name)
	id, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id = []byte(fresh())
		err = os.WriteFile(path, id, 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("read or store the id of the run's batch: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(text, '\n'))
}

// readLines calls read for every line of a file. A last line without an end is not whole, and left
// out.
func readLines(path string, read func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	lines := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = read(line)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", path, n, err)
		}
	}
}

func writeLines[T any](path string, lines []T) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	for i := range lines {
		line, err := openai.Marshal(&lines[i])
		if err != nil {
			return err
		}
		w.Write(append(line, '\n')) //nolint:errcheck // Flush reports it
	}
	return w.Flush()
}

// sum returns the first 32 hexadecimal digits of the SHA-256 of texts. It shows whether two runs
// have the same texts.
func sum(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(h[:16])
}
