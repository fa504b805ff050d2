package batch_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/serve/batch"
)

func TestFileIsKept(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s, err := batch.Open(folder, batch.Options{Logger: quiet})
	require.NoError(t, err)
	f := upload(t, s, "{}\n")
	require.Equal(t, batch.File{
		ID: f.ID, Object: "file", Bytes: 3, CreatedAt: f.CreatedAt, Filename: "rows.jsonl", Purpose: "batch", Status: "processed",
	}, f)
	abandoned, err := s.NewUpload()
	require.NoError(t, err)
	_, err = abandoned.Write([]byte("half of a fi"))
	require.NoError(t, err)

	_, err = batch.Open(folder, batch.Options{Logger: quiet})
	require.ErrorContains(t, err, "another server uses the folder")
	require.NoError(t, s.Close())
	// A crash while a file is added can leave a content without a description.
	orphan := filepath.Join(folder, "files", "file-0.jsonl")
	require.NoError(t, os.WriteFile(orphan, []byte("{}\n"), 0o600))

	s, err = batch.Open(folder, batch.Options{Logger: quiet})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	got, err := s.File(f.ID)
	require.NoError(t, err)
	require.Equal(t, f, got)
	content, _, err := s.OpenFile(f.ID)
	require.NoError(t, err)
	defer content.Close()
	entries, err := os.ReadDir(filepath.Join(folder, "files"))
	require.NoError(t, err)
	require.Len(t, entries, 2, "incomplete files are removed")

	require.NoError(t, s.DeleteFile(f.ID))
	text, err := io.ReadAll(content)
	require.NoError(t, err)
	require.Equal(t, "{}\n", string(text), "an open file can still be read")
	require.ErrorIs(t, s.DeleteFile(f.ID), batch.ErrNoFile)
	_, err = s.File(f.ID)
	require.ErrorIs(t, err, batch.ErrNoFile)
	entries, err = os.ReadDir(filepath.Join(folder, "files"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestDamagedDescriptionIsAnError(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s, err := batch.Open(folder, batch.Options{Logger: quiet})
	require.NoError(t, err)
	f := upload(t, s, "{}\n")
	b, err := s.CreateBatch(batch.Request{InputFileID: f.ID, Endpoint: "/v1/completions"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for _, path := range []string{filepath.Join(folder, "files", f.ID+".json"), filepath.Join(folder, "batches", b.ID+".json")} {
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, text := range []string{"", "{", "null", "[]", `{"id":"other"}`, `{"batch":{"id":"other"}}`} {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			_, err = batch.Open(folder, batch.Options{Logger: quiet})
			require.ErrorContains(t, err, path+" is damaged", text)
		}
		require.NoError(t, os.WriteFile(path, good, 0o600))
	}
	s, err = batch.Open(folder, batch.Options{Logger: quiet})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// A folder whose incomplete files cannot be removed is not opened, since files would be lost in it.
func TestIncompleteFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, kind := range []string{"files", "batches"} {
		left := filepath.Join(folder, kind, ".incomplete-1")
		require.NoError(t, os.MkdirAll(filepath.Dir(left), 0o700))
		require.NoError(t, os.WriteFile(left, nil, 0o600))
		s, err := batch.Open(folder, batch.Options{Logger: quiet})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoFileExists(t, left)
		require.NoError(t, os.MkdirAll(filepath.Join(left, "x"), 0o700))
		_, err = batch.Open(folder, batch.Options{Logger: quiet})
		require.ErrorContains(t, err, left)
		require.NoError(t, os.RemoveAll(left))
	}
}

func TestUploadRefuses(t *testing.T) {
	t.Parallel()
	s, err := batch.Open(t.TempDir(), batch.Options{MaxFileBytes: 1000, Logger: quiet})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, c := range []struct{ text, name, purpose, param, message string }{
		{"{}", "a.jsonl", "", "purpose", "missing"},
		{"{}", "a.jsonl", "batch_output", "purpose", "must be one of"},
		{"{}", "", "batch", "file", "must have a file name"},
		{"{}", "a\xff", "batch", "file", "must be UTF-8 text"},
		{"{}", strings.Repeat("a", 256), "batch", "file", "must be UTF-8 text"},
		{"", "a.jsonl", "batch", "file", "no lines"},
		{"\n \r\n", "a.jsonl", "batch", "file", "no lines"},
		{"\n\nhello\n", "a.jsonl", "batch", "file", "line 3 is not a JSON object"},
		{"null\n", "a.jsonl", "batch", "file", "line 1 is not a JSON object"},
		{"[{}]", "a.json", "batch", "file", "one JSON array"},
		{"PAR1\x15", "a.parquet", "batch", "file", "a Parquet file"},
	} {
		u, err := s.NewUpload()
		require.NoError(t, err)
		_, err = io.WriteString(u, c.text)
		require.NoError(t, err)
		_, err = s.AddFile(u, c.name, c.purpose, 0)
		var refused *batch.RequestError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, c.param, refused.Param)
		require.Contains(t, refused.Message, c.message)
		u.Discard()
	}
	u, err := s.NewUpload()
	require.NoError(t, err)
	_, err = u.Write(make([]byte, 1000))
	require.NoError(t, err)
	n, err := u.Write(make([]byte, 1))
	require.ErrorIs(t, err, batch.ErrTooLarge)
	require.Zero(t, n)
	u.Discard()
	require.Error(t, batch.CheckUpload("a", "batch", time.Minute))
	require.Error(t, batch.CheckUpload("a", "batch", 31*24*time.Hour))
	require.NoError(t, batch.CheckUpload("a", "batch", time.Hour))
	require.NoError(t, batch.CheckUpload(strings.Repeat("a", 255), "batch", 30*24*time.Hour))
	page, err := s.Files(batch.Query{Limit: 10}, "")
	require.NoError(t, err)
	require.Empty(t, page.Items)
}

// Pages of any size, in both directions, have every file exactly once, even if files are deleted
// between two pages.
func TestListOfFiles(t *testing.T) {
	t.Parallel()
	s, err := batch.Open(t.TempDir(), batch.Options{Logger: quiet})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var ids []string
	for i := range 7 {
		purpose := "batch"
		if i%3 == 0 {
			purpose = "user_data"
		}
		u, err := s.NewUpload()
		require.NoError(t, err)
		_, err = io.WriteString(u, "{}")
		require.NoError(t, err)
		f, err := s.AddFile(u, "a", purpose, 0)
		require.NoError(t, err)
		ids = append(ids, f.ID)
	}
	walk := func(q batch.Query, purpose string) (found []string) {
		for {
			page, err := s.Files(q, purpose)
			require.NoError(t, err)
			for _, f := range page.Items {
				found = append(found, f.ID)
			}
			if !page.More {
				return found
			}
			require.Len(t, page.Items, q.Limit)
			q.After = found[len(found)-1]
		}
	}
	for limit := 1; limit <= 8; limit++ {
		require.Equal(t, ids, walk(batch.Query{Limit: limit, Ascending: true}, ""))
		backwards := walk(batch.Query{Limit: limit}, "")
		require.Len(t, backwards, 7)
		require.Equal(t, ids[6], backwards[0])
		require.Equal(t, ids[0], backwards[6])
		require.Equal(t, []string{ids[0], ids[3], ids[6]}, walk(batch.Query{Limit: limit, Ascending: true}, "user_data"))
	}
	require.NoError(t, s.DeleteFile(ids[3]))
	for _, c := range []struct {
		ascending bool
		want      string
	}{{true, ids[4]}, {false, ids[2]}} {
		page, err := s.Files(batch.Query{After: ids[3], Limit: 1, Ascending: c.ascending}, "")
		require.NoError(t, err)
		require.Equal(t, c.want, page.Items[0].ID)
		require.True(t, page.More)
	}
	_, err = s.Files(batch.Query{After: "nonsense", Limit: 1}, "")
	require.Error(t, err)
}
