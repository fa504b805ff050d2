package batch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/openfiles"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// block puts a folder that is not empty in place of a file, so that the file can neither be read,
// replaced nor removed. unblock removes the folder.
func block(t *testing.T, path string) (unblock func()) {
	t.Helper()
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "x"), 0o700))
	return func() { require.NoError(t, os.RemoveAll(path)) }
}

// moveAway renames a file or folder. back undoes it.
func moveAway(t *testing.T, path string) (back func()) {
	t.Helper()
	require.NoError(t, os.Rename(path, path+".away"))
	return func() { require.NoError(t, os.Rename(path+".away", path)) }
}

// replace replaces a file's content. back undoes it.
func replace(t *testing.T, path, text string) (back func()) {
	t.Helper()
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return func() { require.NoError(t, os.WriteFile(path, before, 0o600)) }
}

// requireNoneLeft checks that a store has no incomplete file, and no file open except its lock.
func requireNoneLeft(t *testing.T, s *Store) {
	t.Helper()
	for _, folder := range []string{filesFolder, batchesFolder} {
		left, err := filepath.Glob(filepath.Join(s.folder(folder), ".incomplete-*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	for _, path := range openfiles.Paths(t, s.root) {
		require.Equal(t, s.folder("lock"), path, "the file is still open")
	}
}

// begun returns a batch of n rows of which the first ones have answers and the others have not been
// run. The batch is about to end as completed.
func begun(t *testing.T, s *Store, n, answers int) *batch {
	t.Helper()
	made, err := s.CreateBatch(Request{InputFileID: addInput(t, s, strings.Repeat(`{"custom_id":"a"}`+"\n", max(n, 1))).ID, Endpoint: openai.Completions})
	require.NoError(t, err)
	b, err := s.find(made.ID)
	require.NoError(t, err)
	out, err := rows.OpenOutput(s.resultsPath(made.ID), made.ID)
	require.NoError(t, err)
	for line := range answers {
		j := &queue.Job{Batch: made.ID, Line: line + 1, Sum: "00000000", CustomID: "a"}
		r := queue.Answered(j, new(openai.Request), nil, time.Now(), queue.Stats{})
		require.NoError(t, out.Write(r.Line, r.Text, false))
	}
	require.NoError(t, out.Close())
	require.NoError(t, s.change(b, func(r *record) {
		r.Batch.RequestCounts.Total, r.Ending = n, &ending{Status: Completed, OutputFile: s.newID(filePrefix), ErrorFile: s.newID(filePrefix)}
	}))
	return b
}

// The end of a batch that the disk refuses can be repeated: nothing is left of the first attempt,
// and the batch has not ended before all of its files are there.
func TestEndOfABatchOnABrokenDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault func(t *testing.T, s *Store, b *batch) (undo func())
		says  string
	}{
		"no folder for files": {func(t *testing.T, s *Store, _ *batch) func() { return moveAway(t, s.folder(filesFolder)) }, "no such file or directory"},
		"the results cannot be read": {func(t *testing.T, s *Store, b *batch) func() {
			back := moveAway(t, s.resultsPath(b.state().Batch.ID))
			unblock := block(t, s.resultsPath(b.state().Batch.ID))
			return func() { unblock(); back() }
		}, "is a directory"},
		"a damaged result": {func(t *testing.T, s *Store, b *batch) func() {
			return replace(t, s.resultsPath(b.state().Batch.ID), "{}\n{\n")
		}, "unexpected end of JSON input"},
		"an error line without an id": {func(t *testing.T, s *Store, b *batch) func() {
			return replace(t, s.resultsPath(b.state().Batch.ID), `{"id":"x","error":{"code":"timeout"}}`+"\n")
		}, "batches/batch_"},
		"the results are of another batch": {func(t *testing.T, s *Store, b *batch) func() {
			return replace(t, s.resultsPath(b.state().Batch.ID), `{"id":"res_other-1-00000000"}`+"\n")
		}, "choose another output"},
		"no input": {func(t *testing.T, s *Store, b *batch) func() {
			return moveAway(t, s.contentPath(b.state().Batch.InputFileID))
		}, "no such file or directory"},
		"a damaged input": {func(t *testing.T, s *Store, b *batch) func() {
			return replace(t, s.contentPath(b.state().Batch.InputFileID), "{}\n{}\n{\n")
		}, "read line 3 of the input: unexpected end"},
		"an unread input": {func(t *testing.T, s *Store, b *batch) func() {
			return replace(t, s.contentPath(b.state().Batch.InputFileID), "PAR1\x15")
		}, "Parquet"},
		"no answers' file": {func(t *testing.T, s *Store, b *batch) func() {
			return block(t, s.contentPath(b.state().Ending.OutputFile))
		}, "file exists"},
		"no answers' name": {func(t *testing.T, s *Store, b *batch) func() {
			return block(t, s.filePath(b.state().Ending.OutputFile))
		}, "file exists"},
		"no errors' file": {func(t *testing.T, s *Store, b *batch) func() {
			return block(t, s.contentPath(b.state().Ending.ErrorFile))
		}, "file exists"},
		"no errors' name":   {func(t *testing.T, s *Store, b *batch) func() { return block(t, s.filePath(b.state().Ending.ErrorFile)) }, "file exists"},
		"no batch's record": {func(t *testing.T, s *Store, b *batch) func() { return block(t, s.batchPath(b.state().Batch.ID)) }, "file exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			b := begun(t, s, 4, 2)
			undo := c.fault(t, s, b)
			require.ErrorContains(t, s.finalize(t.Context(), b, funcRunner{}), c.says)
			require.Equal(t, Validating, b.view().Status)
			undo()
			requireNoneLeft(t, s)
			require.NoError(t, s.finalize(t.Context(), b, funcRunner{}))
			got := b.view()
			require.Equal(t, Completed, got.Status)
			require.Equal(t, Counts{Total: 4, Completed: 2, Failed: 2}, got.RequestCounts)
			page, err := s.Files(Query{Limit: 9}, PurposeOutput)
			require.NoError(t, err)
			require.Len(t, page.Items, 2)
			for _, f := range page.Items {
				text, err := os.ReadFile(s.contentPath(f.ID))
				require.NoError(t, err)
				require.Len(t, text, int(f.Bytes))
				require.Equal(t, 2, bytes.Count(text, []byte("\n")))
			}
			require.NoFileExists(t, s.resultsPath(got.ID))
			requireNoneLeft(t, s)
		})
	}
}

// A batch whose rows all have results ends without its input. One that ended before its input was
// read needs no results either.
func TestEndOfABatchNeedsOnlyItsResults(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	b := begun(t, s, 3, 3)
	require.NoError(t, os.Remove(s.contentPath(b.state().Batch.InputFileID)))
	require.NoError(t, s.finalize(t.Context(), b, funcRunner{}))
	require.Equal(t, Counts{Total: 3, Completed: 3}, b.view().RequestCounts)

	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	b = begun(t, s, 0, 0)
	block(t, s.resultsPath(b.state().Batch.ID))
	require.NoError(t, s.finalize(t.Context(), b, funcRunner{forget: func(context.Context, string) error { return errors.New("no queue") }}))
	require.Equal(t, Completed, b.view().Status)
	require.Nil(t, b.view().Usage)
	require.Contains(t, log.String(), `msg="the results of a batch could not be deleted from the queue" batch=`+b.state().Batch.ID+` error="no queue"`)
	require.Contains(t, log.String(), `msg="the results file of a batch could not be deleted" batch=`+b.state().Batch.ID)

	log.Reset()
	b = begun(t, s, 3, 1)
	require.NoError(t, s.finalize(t.Context(), b, funcRunner{}))
	require.Empty(t, log.String())
}

// When the server stops, files of a batch that are not whole are not published.
func TestEndOfABatchIsInterrupted(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := begun(t, s, 4, 2)
	require.ErrorIs(t, s.finalize(ctx, b, funcRunner{}), context.Canceled)
	f, err := s.newFiles(b.state())
	require.NoError(t, err)
	defer f.discard()
	require.ErrorIs(t, f.write(ctx), context.Canceled)
	require.ErrorIs(t, f.missing(ctx), context.Canceled)
	require.Zero(t, f.output.lines+f.errors.lines)
}

// A change that cannot be stored is an error, and clients do not see it.
func TestChangesOnABrokenDisk(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	input := addInput(t, s, "{}\n")
	q := Request{InputFileID: input.ID, Endpoint: openai.Completions}
	back := moveAway(t, s.folder(batchesFolder))
	_, err := s.CreateBatch(q)
	require.ErrorContains(t, err, "store a batch: open ")
	back()
	page, err := s.Batches(Query{Limit: 1})
	require.NoError(t, err)
	require.Empty(t, page.Items)
	require.Zero(t, s.readers[input.ID], "the input may be deleted")

	made, err := s.CreateBatch(q)
	require.NoError(t, err)
	b, err := s.find(made.ID)
	require.NoError(t, err)
	unblock := block(t, s.batchPath(made.ID))
	_, err = s.CancelBatch(made.ID)
	require.ErrorContains(t, err, "cancel batch "+made.ID+": rename ")
	require.NoError(t, b.stopped.Err())
	require.Error(t, s.conclude(b, nil))
	require.Empty(t, log.String())
	s.warn(b, "odd")
	require.Contains(t, log.String(), `level=WARN msg="batch: odd" batch=`+made.ID)
	require.Contains(t, log.String(), `level=WARN msg="could not store a warning of a batch" batch=`+made.ID)
	require.Equal(t, made, b.view())
	require.Nil(t, b.state().Ending)
	unblock()

	log.Reset()
	s.warn(b, "odd")
	s.warn(b, "odd")
	s.warn(b, "even")
	require.Equal(t, []string{"odd", "even"}, b.view().Warnings)
	require.NotContains(t, log.String(), "could not store")
	require.Equal(t, 1, strings.Count(log.String(), "batch: odd"), "a warning is logged once")
	cancelled, err := s.CancelBatch(made.ID)
	require.NoError(t, err)
	require.Equal(t, Cancelling, cancelled.Status)
	require.Error(t, b.stopped.Err())
	require.NoError(t, s.conclude(b, nil))
	_, err = s.CancelBatch(made.ID)
	require.NoError(t, err, "it is being cancelled already")
	finalizing := begun(t, s, 1, 0)
	_, err = s.CancelBatch(finalizing.state().Batch.ID)
	require.ErrorContains(t, err, "it has ended or is ending")
}

// A file is known when its content and description are on the disk, and forgotten when the
// description is gone.
func TestFilesOnABrokenDisk(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	back := moveAway(t, s.folder(filesFolder))
	_, err := s.NewUpload()
	require.ErrorContains(t, err, "store an upload: open ")
	back()
	u, err := s.NewUpload()
	require.NoError(t, err)
	back = moveAway(t, s.folder(filesFolder))
	_, err = s.AddFile(u, "a", "evals", 0)
	require.ErrorContains(t, err, `store file "a": rename `)
	back()
	_, err = u.Write([]byte("a"))
	require.ErrorContains(t, err, "store an upload: write ")
	_, err = s.AddFile(u, "a", PurposeInput, 0)
	require.ErrorContains(t, err, "read an upload: seek ")
	u.Discard()

	temp, err := os.CreateTemp(s.folder(filesFolder), tempPattern)
	require.NoError(t, err)
	block(t, s.filePath("file-x"))
	_, err = s.publishFile("file-x", temp, File{Purpose: "evals"}, 0)
	require.ErrorContains(t, err, "rename ")
	_, err = s.File("file-x")
	require.ErrorIs(t, err, ErrNoFile)
	page, err := s.Files(Query{Limit: 9}, "")
	require.NoError(t, err)
	require.Empty(t, page.Items)

	f, gone, looped := addInput(t, s, "{}\n"), addInput(t, s, "{}\n"), addInput(t, s, "{}\n")
	unblock := block(t, s.filePath(f.ID))
	require.ErrorContains(t, s.DeleteFile(f.ID), "delete file "+f.ID+": remove ")
	require.FileExists(t, s.contentPath(f.ID), "Open would remove the content alone")
	require.ErrorIs(t, s.DeleteFile(f.ID), ErrNoFile)
	unblock()
	require.NoError(t, os.Remove(s.contentPath(gone.ID)))
	_, _, err = s.OpenFile(gone.ID)
	require.ErrorIs(t, err, ErrNoFile, "it was just deleted")
	block(t, s.contentPath(gone.ID))
	require.ErrorContains(t, s.DeleteFile(gone.ID), "delete file "+gone.ID+": remove ")
	require.NoError(t, os.Remove(s.contentPath(looped.ID)))
	require.NoError(t, os.Symlink(s.contentPath(looped.ID), s.contentPath(looped.ID)))
	_, _, err = s.OpenFile("file-none")
	require.ErrorIs(t, err, ErrNoFile)
	_, _, err = s.OpenFile(looped.ID)
	require.ErrorIs(t, err, unix.ELOOP)

	require.Empty(t, log.String())
	f = addInput(t, s, "{}\n")
	s.mu.Lock()
	old := s.files[f.ID]
	old.ExpiresAt = new(s.now().Unix())
	s.files[f.ID] = old
	s.mu.Unlock()
	block(t, s.filePath(f.ID))
	s.removeExpired()
	require.Contains(t, log.String(), `level=ERROR msg="an expired file is left on the disk" error="delete file `+f.ID)
	require.Equal(t, []string{looped.ID}, s.fileIDs)
	requireNoneLeft(t, s)
}

// A folder that cannot be read is not opened, and stays free for another attempt.
func TestFoldersThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ blocked, says string }{
		"files":         {filesFolder + "/file-1.json", "is a directory"},
		"a content":     {filesFolder + "/file-1.jsonl", "directory not empty"},
		"a batch":       {batchesFolder + "/batch_1.json", "is a directory"},
		"results":       {batchesFolder + "/batch_1.jsonl", "directory not empty"},
		"the lock file": {"lock", "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			unblock := block(t, filepath.Join(root, c.blocked))
			_, err := Open(root, Options{})
			require.ErrorContains(t, err, "open data folder "+root+": ")
			require.ErrorContains(t, err, c.says)
			unblock()
			s, err := Open(root, Options{})
			require.NoError(t, err)
			require.NoError(t, s.Close())
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(file, Options{})
	require.ErrorContains(t, err, "not a directory")
	require.ErrorIs(t, syncFolder(filepath.Join(file, "none")), unix.ENOTDIR)
	require.Error(t, remove(filepath.Join(file, "none")))
}

// A store that is opened keeps the results of batches that have not ended, and no others.
func TestResultsOfEndedBatchesAreRemoved(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), Options{})
	require.NoError(t, err)
	running, ended := begun(t, s, 1, 1), begun(t, s, 1, 1)
	require.NoError(t, s.finalize(t.Context(), ended, funcRunner{}))
	for _, id := range []string{ended.state().Batch.ID, "batch_none"} {
		require.NoError(t, os.WriteFile(s.resultsPath(id), nil, 0o600))
	}
	require.NoError(t, os.WriteFile(s.contentPath("file-none"), nil, 0o600))
	require.NoError(t, s.Close())
	var log bytes.Buffer
	s, err = Open(s.root, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	defer s.Close()
	require.FileExists(t, s.resultsPath(running.state().Batch.ID))
	require.NoFileExists(t, s.resultsPath(ended.state().Batch.ID))
	require.NoFileExists(t, s.resultsPath("batch_none"))
	require.Contains(t, log.String(), `msg="removed an incomplete file" file=file-none.jsonl`)
	require.Equal(t, 1, strings.Count(log.String(), "removed"))
	require.Equal(t, map[string]int{running.state().Batch.InputFileID: 1}, s.readers)
	require.EqualValues(t, DefaultMaxFileBytes, s.MaxFileBytes())
}

const onFullDisk = "INGOT_TEST_FULL_DISK"

// A disk that is full after any number of bytes leaves no file that is not whole. The test runs in
// a process of its own, since it limits the sizes of all files of its process.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getenv(onFullDisk) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$")
		cmd.Env = append(os.Environ(), onFullDisk+"=1")
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", text)
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	s := openStore(t)
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	full := func(size int, f func() error) error {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(size), Max: before.Max}))
		defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before)) }()
		return f()
	}
	path := s.filePath("file-x")
	require.NoError(t, writeJSON(path, "old"))
	const whole = `"something"` + "\n"
	for size := range len(whole) + 1 {
		err := full(size, func() error { return writeJSON(path, "something") })
		text, readErr := os.ReadFile(path)
		require.NoError(t, readErr)
		if size < len(whole) {
			require.ErrorIs(t, err, unix.EFBIG)
			require.Equal(t, "\"old\"\n", string(text))
		} else {
			require.NoError(t, err)
			require.Equal(t, whole, string(text))
		}
	}

	u, err := s.NewUpload()
	require.NoError(t, err)
	err = full(3, func() error {
		_, err := io.WriteString(u, "four")
		return err
	})
	require.ErrorIs(t, err, unix.EFBIG)
	require.ErrorContains(t, err, "store an upload: write ")
	u.Discard()

	rowsOf := map[int]int{1: 2, 2000: 2000, 0: 3000}
	for _, answers := range []int{1, 2000, 0} { // the lines of 2000 rows exceed the buffer
		b := begun(t, s, rowsOf[answers], answers)
		var f *files
		err = full(1000, func() error {
			if f, err = s.newFiles(b.state()); err == nil {
				err = f.write(t.Context())
			}
			return err
		})
		if answers != 1 {
			require.ErrorIs(t, err, unix.EFBIG)
		} else {
			require.NoError(t, err)
			for _, l := range []*lineFile{&f.output, &f.errors} {
				_, err := l.w.WriteString(strings.Repeat("a", 1000))
				require.NoError(t, err)
				require.ErrorIs(t, full(1000, func() error {
					_, err := f.publish(l, "file-y", "output")
					return err
				}), unix.EFBIG)
			}
			require.NoFileExists(t, s.contentPath("file-y"))
		}
		f.discard()
	}
	requireNoneLeft(t, s)
}
