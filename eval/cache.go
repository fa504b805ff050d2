package eval

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
)

// Cache is a folder with the answers of earlier runs. An answer is found by Identity, endpoint and request body, so the same request
// always gets the same answer. Do not use a cache to measure how much answers vary.
type Cache struct {
	Folder   string
	Identity string // source of the answers: model and version of the program, or server and model
}

// path returns the path of the file with the answer to a request.
func (c *Cache) path(row *rows.Row) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %s %s", c.Identity, row.Endpoint, row.Body) //nolint:errcheck // a hash does not fail
	name := hex.EncodeToString(sum.Sum(nil))
	return filepath.Join(c.Folder, name[:2], name[2:]+".json")
}

// kept has the fields of an output line that the cache stores.
type kept struct {
	ID       string          `json:"id"`
	CustomID string          `json:"custom_id"`
	Response json.RawMessage `json:"response"`
	Error    json.RawMessage `json:"error"`
	Stats    json.RawMessage `json:"stats"`
}

// Fill writes cached answers to an output file, for the requests that have no answer there yet. It returns the number of answers that it
// wrote. requests is the path of the file of requests.
func (c *Cache) Fill(ctx context.Context, requests string, out *rows.Output) (n int, err error) {
	err = c.each(ctx, requests, func(row *rows.Row) error {
		if out.Has(row.Line) {
			return nil
		}
		text, err := os.ReadFile(c.path(row))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		var l kept
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		if err != nil {
			return fmt.Errorf("read a cached answer (%s): %w; delete this file to generate the answer again", c.path(row), err)
		}
		l.ID, l.CustomID = openai.ResultID(out.Batch(), row.Line, row.Sum), row.CustomID
		line, err := openai.Marshal(l)
		if err != nil {
			return err
		}
		n++
		return out.Write(row.Line, line, false)
	})
	return n, errors.Join(err, out.Flush())
}

// Store adds the answers of an output file to the cache, except rows that have an error. requests is the path of the file of requests,
// answers that of the output file.
func (c *Cache) Store(ctx context.Context, requests, answers string) error {
	paths := map[string]string{}
	err := c.each(ctx, requests, func(row *rows.Row) error {
		paths[row.CustomID] = c.path(row)
		return nil
	})
	if err != nil {
		return err
	}
	f, err := os.Open(answers)
	if err != nil {
		return fmt.Errorf("store answers in the cache: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	lines := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = storeLine(line, paths)
		}
		if err != nil {
			return fmt.Errorf("store the answer in line %d of %s in the cache: %w", n, answers, err)
		}
	}
}

func storeLine(line []byte, paths map[string]string) error {
	var l kept
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	path, ok := paths[l.CustomID]
	if !ok || string(l.Error) != "null" {
		return nil
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return replaceFile(path, line)
}

// each calls the function use for every valid request in a file.
func (c *Cache) each(ctx context.Context, requests string, use func(row *rows.Row) error) error {
	f, err := os.Open(requests)
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	for row, err := range rows.NewReader(f, rows.Options{Format: rows.FormatJSONL}).Rows(ctx) {
		if err == nil && row.Err == nil {
			err = use(&row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
