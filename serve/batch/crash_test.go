package batch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/serve/batch"
	"github.com/ingot-run/ingot/worker"
)

// forgetful is a Runner that stops the store's Run after the rows were answered and before the
// batch's files are written.
type forgetful struct {
	batch.Runner
	cancel *context.CancelFunc
}

func (f forgetful) Forget(context.Context, string) error {
	(*f.cancel)()
	return nil
}

// A crash while a batch's files are written can leave several states of the folder. From each of
// them, the batch is completed.
func TestEndSurvivesCrashes(t *testing.T) {
	t.Parallel()
	eng, err := openMicro()
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close()) }()
	alone := batch.NewAlone(map[string]worker.Engine{"micro": eng}, batch.AloneOptions{Concurrency: 8, Logger: quiet})

	// In the folder answered, all rows are answered. In the folder ended, the same batch has ended.
	answered, ended := t.TempDir(), t.TempDir()
	s, err := batch.Open(answered, batch.Options{Logger: quiet})
	require.NoError(t, err)
	b := create(t, s, rowsOf(20)+bad("bad"))
	ctx, cancel := context.WithCancel(t.Context())
	s.Run(ctx, forgetful{alone, &cancel})
	b, err = s.Batch(b.ID)
	require.NoError(t, err)
	require.Equal(t, batch.Finalizing, b.Status)
	require.Equal(t, batch.Counts{Total: 21, Completed: 20, Failed: 1}, b.RequestCounts)
	require.Nil(t, b.OutputFileID)
	require.NoError(t, s.Close())
	require.NoError(t, os.CopyFS(ended, os.DirFS(answered)))
	finish(t, ended, alone, b.ID, 21)
	whole := contents(t, ended, b.ID)
	output, failed := fileIDs(t, ended, b.ID)
	results := filepath.Join("batches", b.ID+".jsonl")
	require.FileExists(t, filepath.Join(answered, results))
	require.NoFileExists(t, filepath.Join(ended, results))

	for name, have := range map[string][]string{
		"nothing":                  nil,
		"content of the output":    {"files/" + output + ".jsonl"},
		"output":                   {"files/" + output + ".jsonl", "files/" + output + ".json"},
		"output and error content": {"files/" + output + ".jsonl", "files/" + output + ".json", "files/" + failed + ".jsonl"},
		"both files": {
			"files/" + output + ".jsonl", "files/" + output + ".json", "files/" + failed + ".jsonl", "files/" + failed + ".json",
		},
		"the batch too": {
			"files/" + output + ".jsonl", "files/" + output + ".json", "files/" + failed + ".jsonl", "files/" + failed + ".json",
			"batches/" + b.ID + ".json",
		},
	} {
		t.Run(name, func(t *testing.T) {
			crashed := t.TempDir()
			require.NoError(t, os.CopyFS(crashed, os.DirFS(answered)))
			for _, file := range have {
				text, err := os.ReadFile(filepath.Join(ended, file))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(crashed, file), text, 0o600))
			}
			require.NoError(t, os.WriteFile(filepath.Join(crashed, "batches", ".incomplete-1"), []byte("{"), 0o600))
			finish(t, crashed, alone, b.ID, 21)
			require.Equal(t, whole, contents(t, crashed, b.ID))
			require.NoFileExists(t, filepath.Join(crashed, results))
			require.NoFileExists(t, filepath.Join(crashed, "batches", ".incomplete-1"))
		})
	}
	t.Run("half of the results", func(t *testing.T) {
		crashed := t.TempDir()
		require.NoError(t, os.CopyFS(crashed, os.DirFS(answered)))
		path := filepath.Join(crashed, results)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text[:len(text)/2], 0o600))
		record := filepath.Join(crashed, "batches", b.ID+".json")
		text, err = os.ReadFile(record)
		require.NoError(t, err)
		// Write the record as it was before the end of the batch was decided.
		before, _, found := bytes.Cut(text, []byte(`,"ending":`))
		require.True(t, found)
		text = bytes.Replace(before, []byte(`"finalizing"`), []byte(`"in_progress"`), 1)
		require.NoError(t, os.WriteFile(record, append(text, '}'), 0o600))
		finish(t, crashed, alone, b.ID, 21)
	})
}

// finish opens a store and runs it until a batch of n rows is completed.
func finish(t *testing.T, folder string, r batch.Runner, id string, n int) {
	t.Helper()
	s := start(t, folder, gated{}, r)
	b := await(t, s.Store, id, ended)
	require.Equal(t, batch.Completed, b.Status)
	requireWhole(t, s.Store, b, n)
	page, err := s.Files(batch.Query{Limit: 100}, batch.PurposeOutput)
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	require.NoError(t, s.DeleteFile(b.InputFileID), "the batch no longer needs its input")
	s.stop()
}

func fileIDs(t *testing.T, folder, id string) (output, failed string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "batches", id+".json"))
	require.NoError(t, err)
	var r struct {
		Batch batch.Batch `json:"batch"`
	}
	require.NoError(t, json.Unmarshal(text, &r))
	return *r.Batch.OutputFileID, *r.Batch.ErrorFileID
}

// contents returns the content of both files of a batch.
func contents(t *testing.T, folder, id string) string {
	t.Helper()
	var all strings.Builder
	output, failed := fileIDs(t, folder, id)
	for _, file := range []string{output, failed} {
		text, err := os.ReadFile(filepath.Join(folder, "files", file+".jsonl"))
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
