package eval_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/internal/openfiles"
)

// TestFilesAreClosed: a run that is evaluated, read, compared and saved leaves no file open.
func TestFilesAreClosed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	f, err := os.Create(filepath.Join(folder, "open"))
	require.NoError(t, err)
	openfiles.Require(t, 1, folder)
	require.NoError(t, f.Close())
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(2))
	openfiles.Require(t, 0, filepath.Dir(s.Data))
	run := filepath.Join(folder, "run")
	cache := eval.Cache{Folder: filepath.Join(folder, "cache"), Identity: "m", Batch: "x"}
	r, err := eval.Evaluate(t.Context(), run, []*eval.Set{s}, nil, eval.Config{Model: "m"}, func(ctx context.Context, requests, answers string) error {
		return cache.Answer(ctx, requests, answers, func(int) error {
			answerWith(t, run, eval.RequestsFile, eval.AnswersFile, yes)
			return nil
		})
	}, nil)
	require.NoError(t, err)
	require.NoError(t, eval.Save(run, []*eval.Set{s}, nil, r))
	for _, dir := range []string{run, eval.SavedFolder(run, r.Config)} {
		list, err := eval.CompareAll(dir, dir, -1)
		require.NoError(t, err)
		require.Len(t, list, 1)
	}
	_, err = eval.Pin(folder, "main", "run")
	require.NoError(t, err)
	openfiles.Require(t, 0, folder)
}
