package eval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
)

// Cache is a folder with the answers of earlier runs. An answer is found by Identity, endpoint and
// request body, so the same request always gets the same answer. Do not use a cache to measure how
// much answers vary.
type Cache struct {
	Folder   string
	Identity string // source of the answers: model and version of the program, or server and model
	Batch    string // batch id of outputs with these answers
}

func (c *Cache) path(row *rows.Row) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %s %s", c.Identity, row.Endpoint, row.Body) //nolint:errcheck // a hash does not fail
	name := hex.EncodeToString(sum.Sum(nil))
	return filepath.Join(c.Folder, name[:2], name[2:]+".json")
}

type kept struct {
	ID       string          `json:"id"`
	CustomID string          `json:"custom_id"`
	Response json.RawMessage `json:"response"`
	Error    json.RawMessage `json:"error"`
	Stats    json.RawMessage `json:"stats"`
}

// Answer answers requests from the cache, calls ask for the others with the number of answers
// found, and adds their answers to the cache. requests and answers are paths of files.
func (c *Cache) Answer(ctx context.Context, requests, answers string, ask func(found int) error) error {
	out, err := rows.OpenOutput(answers, c.Batch)
	if err != nil {
		return err
	}
	n, err := c.fill(ctx, requests, out)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := ask(n); err != nil {
		return err
	}
	return c.store(ctx, requests, answers)
}

// fill writes cached answers to an output file, for the requests that have no answer there yet.
func (c *Cache) fill(ctx context.Context, requests string, out *rows.Output) (n int, err error) {
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
		if err == nil {
			n++
			err = out.Write(row.Line, line, false)
		}
		return err
	})
	return n, errors.Join(err, out.Flush())
}

func (c *Cache) store(ctx context.Context, requests, answers string) error {
	paths := map[string]string{}
	err := c.each(ctx, requests, func(row *rows.Row) error {
		paths[row.CustomID] = c.path(row)
		return nil
	})
	if err != nil {
		return err
	}
	if err := readLines(answers, func(line []byte) error { return storeLine(line, paths) }); err != nil {
		return fmt.Errorf("store answers in the cache: %w", err)
	}
	return nil
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
