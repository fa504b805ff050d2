package eval_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/eval/task"
)

// folderOf makes a folder of runs from copies of one run. Each copy is dated a day later than the
// one before.
func folderOf(t *testing.T, run string, names ...string) string {
	t.Helper()
	folder := t.TempDir()
	for i, name := range names {
		dir := filepath.Join(folder, name)
		require.NoError(t, os.CopyFS(dir, os.DirFS(run)))
		editResults(t, dir, func(r *eval.Results) { r.Date = time.Date(2026, 1, 2+i, 3, 0, 0, 0, time.UTC) })
	}
	return folder
}

func editResults(t *testing.T, dir string, edit func(r *eval.Results)) {
	t.Helper()
	r, err := eval.ReadResults(dir)
	require.NoError(t, err)
	edit(r)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, eval.ResultsFile), text, 0o600))
}

func namesIn(t *testing.T, folder string) []string {
	t.Helper()
	index, err := eval.ReadIndex(folder)
	require.NoError(t, err)
	var names []string
	for _, r := range index.Runs {
		names = append(names, r.Name)
	}
	return names
}

// TestIndex checks that ReadIndex returns the present runs of the folder after changes to the index
// and to the runs.
func TestIndex(t *testing.T) {
	t.Parallel()
	folder := folderOf(t, answered(t, []*eval.Set{load(t, "answers", 3)}, 4, engine.Options{}), "c", "a", "b")
	require.NoError(t, os.Mkdir(filepath.Join(folder, "unfinished"), 0o755))
	require.Equal(t, []string{"c", "a", "b"}, namesIn(t, folder), "by date")
	path := filepath.Join(folder, eval.IndexFile)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(whole), "\n"))

	for name, damaged := range map[string]string{
		"cut off": string(whole[:len(whole)/2]), "empty": "", "no JSON": "\x00\x00\n" + string(whole), "other JSON": "[1]\n{}\nnull\n",
		"a run that is gone": strings.Replace(string(whole), `"run":"a"`, `"run":"gone"`, 1),
	} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		require.Equal(t, []string{"c", "a", "b"}, namesIn(t, folder), name)
		repaired, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(whole), string(repaired), name)
	}

	// An unchanged run is taken from the index. The test edits the run's line in the index to check
	// that.
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(whole), `"n-shot":{"answers":0}`, `"n-shot":{"answers":7}`, 1)), 0o600))
	index, err := eval.ReadIndex(folder)
	require.NoError(t, err)
	require.Equal(t, 7, index.Runs[1].Results.Shots["answers"])

	editResults(t, filepath.Join(folder, "a"), func(r *eval.Results) { r.Date = r.Date.AddDate(1, 0, 0) })
	require.Equal(t, []string{"c", "b", "a"}, namesIn(t, folder), "a changed run is read again")
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "c")))
	require.Equal(t, []string{"b", "a"}, namesIn(t, folder), "a deleted run is not listed")

	// The index preserves fields that only a later version of the program knows, so that this
	// version can rewrite the index.
	results := filepath.Join(folder, "b", eval.ResultsFile)
	text, err := os.ReadFile(results)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(results, []byte(strings.Replace(string(text), "{", `{"later": [1],`, 1)), 0o600))
	require.Equal(t, []string{"b", "a"}, namesIn(t, folder))
	whole, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(whole), `"later":[1]`)

	require.NoError(t, os.WriteFile(results, []byte("{"), 0o600))
	index, err = eval.ReadIndex(folder)
	require.NoError(t, err)
	require.Len(t, index.Runs, 1)
	require.Len(t, index.Damaged, 1)
	require.ErrorContains(t, index.Damaged[0], filepath.Join("b", eval.ResultsFile))

	_, err = eval.ReadIndex(filepath.Join(folder, "nowhere"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestBaselines pins runs and uses them as baselines of gates. Runs that cannot be compared are
// refused.
func TestBaselines(t *testing.T) {
	t.Parallel()
	folder := folderOf(t, answered(t, []*eval.Set{load(t, "answers", 3), load(t, "texts", 2)}, 4, engine.Options{}), "first", "second", "other")
	_, err := eval.Gate(folder, "main", "second", -1)
	require.ErrorIs(t, err, eval.ErrNoBaseline)
	_, err = eval.Pin(folder, "main", "nothing")
	require.ErrorContains(t, err, "has no finished run of this name")
	_, err = eval.Pin(folder, "../main", "first")
	require.ErrorContains(t, err, "a name has up to 64 letters")
	for _, run := range []string{"second", filepath.Join(folder, "first"), filepath.Join(folder, "first") + "/"} {
		b, err := eval.Pin(folder, "main", run)
		require.NoError(t, err)
		require.Equal(t, filepath.Base(run), b.Run)
	}
	run, err := eval.PinnedRun(folder, "main")
	require.NoError(t, err)
	require.Equal(t, "first", run)

	j, err := eval.Gate(folder, "main", "second", -1)
	require.NoError(t, err)
	require.Equal(t, statistics.Pass, j.Verdict)
	require.NoError(t, j.Write(filepath.Join(folder, "second")))
	index, err := eval.ReadIndex(folder)
	require.NoError(t, err)
	require.Equal(t, j, index.Runs[1].Gate)

	// Scoring again changes only the date. The baseline stays the same.
	editResults(t, filepath.Join(folder, "first"), func(r *eval.Results) { r.Date = time.Now() })
	_, err = eval.PinnedRun(folder, "main")
	require.NoError(t, err)

	// A gate refuses two runs if only one of them has a task, or if their filters differ.
	drop := func(r *eval.Results) { delete(r.Results, "texts") }
	editResults(t, filepath.Join(folder, "other"), drop)
	_, err = eval.Gate(folder, "main", "other", -1)
	require.ErrorIs(t, err, eval.ErrOtherTasks)
	_, err = eval.Pin(folder, "fewer", "other")
	require.NoError(t, err)
	_, err = eval.Gate(folder, "fewer", "second", -1)
	require.ErrorIs(t, err, eval.ErrOtherTasks)
	editResults(t, filepath.Join(folder, "second"), func(r *eval.Results) { r.Results["answers"]["exact_match,last"] = 1 })
	_, err = eval.Gate(folder, "main", "second", -1)
	require.ErrorIs(t, err, eval.ErrOtherScores)

	// A baseline whose samples changed is refused until it is pinned again.
	samples := filepath.Join(folder, "first", eval.SamplesFile("answers"))
	text, err := os.ReadFile(samples)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(samples, append(text, text...), 0o600))
	_, err = eval.Gate(folder, "main", "first", -1)
	require.ErrorIs(t, err, eval.ErrChangedBaseline)
	_, err = eval.Pin(folder, "main", "first")
	require.NoError(t, err)
	_, err = eval.PinnedRun(folder, "main")
	require.NoError(t, err)

	require.NoError(t, eval.Unpin(folder, "main"))
	require.ErrorIs(t, eval.Unpin(folder, "main"), eval.ErrNoBaseline)
	for _, damaged := range []string{"{", "null", "[]"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, eval.BaselinesFile), []byte(damaged), 0o600))
		_, err = eval.Baselines(folder)
		require.ErrorContains(t, err, "delete the file and pin the baselines again")
		_, err = eval.Pin(folder, "main", "first")
		require.ErrorContains(t, err, "delete the file and pin the baselines again")
	}
}

// TestHashOfATask checks that the hash of a task is the same each time the task is loaded, and
// differs with other settings.
func TestHashOfATask(t *testing.T) {
	t.Parallel()
	hash := func(edit func(read *task.Task)) string {
		read, err := task.Read(filepath.Join(tasks, "answers.yaml"))
		require.NoError(t, err)
		edit(read)
		s, err := eval.Load(read, 3)
		require.NoError(t, err)
		return s.Hash
	}
	seeded := func(seed int64) func(read *task.Task) {
		return func(read *task.Task) { read.Generation.Seed = &seed }
	}
	first := hash(seeded(1))
	require.Equal(t, first, hash(seeded(1)))
	all := map[string]bool{}
	for _, edit := range []func(read *task.Task){
		func(*task.Task) {}, seeded(1), seeded(2),
		func(read *task.Task) { read.Generation.Until = []string{"a", "b"} },
		func(read *task.Task) { read.Generation.Until = []string{"a b"} },
		func(read *task.Task) { read.Repeats = 2 },
		func(read *task.Task) { read.Chat = !read.Chat },
		func(read *task.Task) { read.Shots = 1 },
	} {
		all[hash(edit)] = true
	}
	require.Len(t, all, 8)
}
