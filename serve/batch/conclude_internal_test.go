package batch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func addInput(t *testing.T, s *Store, text string) File {
	t.Helper()
	u, err := s.NewUpload()
	require.NoError(t, err)
	_, err = u.Write([]byte(text))
	require.NoError(t, err)
	f, err := s.AddFile(u, "a", PurposeInput, 0)
	require.NoError(t, err)
	return f
}

// A batch ends by what its results lack and by why its run ended. Only a batch that completes or
// expires goes on writing files as finalizing.
func TestHowABatchEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cancelling, stopped, begun bool
		failure                    error
		answered, failed, expired  int // results of 5 rows
		want, status               Status
	}{
		"all answered":                             {begun: true, answered: 5, want: Completed, status: Finalizing},
		"some failed":                              {begun: true, answered: 3, failed: 2, want: Completed, status: Finalizing},
		"all answered as the time ended":           {begun: true, stopped: true, answered: 5, want: Completed, status: Finalizing},
		"a row is missing as the time ended":       {begun: true, stopped: true, answered: 4, want: Expired, status: Finalizing},
		"a row has expired":                        {begun: true, answered: 4, expired: 1, want: Expired, status: Finalizing},
		"the time ended before the rows were read": {stopped: true, want: Expired, status: Finalizing},
		"it was cancelled":                         {begun: true, stopped: true, cancelling: true, answered: 2, want: Cancelled, status: Cancelling},
		"it was cancelled, and rows have expired":  {begun: true, stopped: true, cancelling: true, expired: 2, want: Cancelled, status: Cancelling},
		"it has failed":                            {begun: true, failure: errors.New("lost"), answered: 2, want: Failed, status: InProgress},
		"it has failed as the time ended":          {begun: true, stopped: true, failure: errors.New("lost"), want: Failed, status: InProgress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			made, err := s.CreateBatch(Request{InputFileID: addInput(t, s, "{}\n").ID, Endpoint: openai.Completions})
			require.NoError(t, err)
			b, err := s.find(made.ID)
			require.NoError(t, err)
			require.NoError(t, s.change(b, func(r *record) {
				if c.begun {
					r.Batch.InProgressAt, r.Batch.Status, r.Batch.RequestCounts.Total = s.unix(), InProgress, 5
				}
				if c.cancelling {
					r.Batch.Status = Cancelling
				}
			}))
			if c.begun {
				out, err := rows.OpenOutput(s.resultsPath(made.ID), made.ID)
				require.NoError(t, err)
				defer out.Close()
				for line := range c.answered + c.failed + c.expired {
					j := &queue.Job{Batch: made.ID, Line: line + 1, Sum: "00000000", CustomID: rows.DefaultID(line + 1)}
					result := queue.Answered(j, new(openai.Request), nil, time.Now(), queue.Stats{})
					switch {
					case line >= c.answered+c.failed:
						result = queue.Failure(j, openai.Error{Code: openai.CodeExpired}, queue.Stats{})
					case line >= c.answered:
						result = queue.Failure(j, openai.Error{Code: openai.CodeFailed}, queue.Stats{})
					}
					require.NoError(t, out.Write(result.Line, result.Text, result.Failed))
				}
				require.NoError(t, out.Flush())
				b.results.Store(out)
			}
			if c.stopped {
				b.stop()
			}
			require.NoError(t, s.conclude(b, c.failure))
			r := b.state()
			require.Equal(t, c.want, r.Ending.Status)
			require.Equal(t, c.status == Finalizing, r.Batch.FinalizingAt != nil)
			if c.begun || c.status == Finalizing {
				require.Equal(t, c.status, r.Batch.Status)
			}
			require.Equal(t, c.answered, r.Batch.RequestCounts.Completed)
			require.Equal(t, c.failed+c.expired, r.Batch.RequestCounts.Failed)
			require.NotEqual(t, r.Ending.OutputFile, r.Ending.ErrorFile)
			if c.failure == nil {
				require.Nil(t, r.Batch.Errors)
			} else {
				require.Equal(t, "lost", r.Batch.Errors.Data[0].Message)
			}
		})
	}
}

// A repeated request gets the batch of the first one for five minutes, if nothing differs.
func TestHowLongARequestIsRepeated(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	now := time.Unix(1_700_000_000, 0)
	s.now = func() time.Time { return now }
	input, other := addInput(t, s, "{}\n"), addInput(t, s, "{}\n")
	q := Request{InputFileID: input.ID, Endpoint: openai.Completions, CompletionWindow: "1h", Metadata: map[string]string{"a": "b"}, OutputExpiry: time.Hour, Models: []string{"m"}, Repeated: true}
	first, err := s.CreateBatch(q)
	require.NoError(t, err)
	again := func(q Request) bool {
		b, err := s.CreateBatch(q)
		require.NoError(t, err)
		return b.ID == first.ID
	}
	require.True(t, again(q))
	now = now.Add(repeatWindow)
	require.True(t, again(q))
	for name, change := range map[string]func(*Request){
		"not repeated":     func(q *Request) { q.Repeated = false },
		"another file":     func(q *Request) { q.InputFileID = other.ID },
		"another endpoint": func(q *Request) { q.Endpoint = openai.Chat },
		"another window":   func(q *Request) { q.CompletionWindow = "2h" },
		"other metadata":   func(q *Request) { q.Metadata = map[string]string{"a": "c"} },
		"another expiry":   func(q *Request) { q.OutputExpiry = 2 * time.Hour },
		"other models":     func(q *Request) { q.Models = nil },
	} {
		changed := q
		change(&changed)
		require.False(t, again(changed), name)
	}
	known := len(s.batchIDs)
	now = now.Add(repeatWindow + time.Second)
	require.False(t, again(q))
	require.Len(t, s.batchIDs, known+1)
}

// A file appears at its path only if its content is on the disk.
func TestAFileThatCannotBeSyncedIsNotPublished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe") // a pipe can be written, closed and renamed, but not synced
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	require.NoError(t, err)
	path := filepath.Join(dir, "a.json")
	require.Error(t, publish(f, path))
	require.NoFileExists(t, path)
	_, err = os.Lstat(pipe)
	require.ErrorIs(t, err, os.ErrNotExist)

	require.NoError(t, writeJSON(path, "<é>"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "\"\\u003cé\\u003e\"\n", string(text))
	require.Error(t, writeJSON(path, make(chan int)))
	require.Error(t, writeJSON(filepath.Join(dir, "none", "a.json"), 1))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.Error(t, writeJSON(filepath.Join(dir, "folder"), 1), "a folder cannot be replaced by a file")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "no incomplete file is left")
	require.NoError(t, remove(path))
	require.NoError(t, remove(path), "the file need not exist")
}

// Windows of batches have limits, and days as a unit.
func TestCompletionWindows(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1s": time.Second, "24h": 24 * time.Hour, "1h30m": 90 * time.Minute, "1d": 24 * time.Hour, "30d": MaxWindow, "720h": MaxWindow,
		"999ms": 0, "0d": 0, "-1d": 0, "31d": 0, "721h": 0, "1.5d": 0, "d": 0, "": 0, "soon": 0, "99999999999999999999d": 0,
	} {
		d, err := window(text)
		require.Equal(t, want, d, text)
		require.Equal(t, want == 0, err != nil, text)
	}
}

func TestUntilEndsWithBoth(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		a, stopA := context.WithCancel(t.Context())
		b, stopB := context.WithCancel(t.Context())
		ctx, cancel := until(a, b)
		require.NoError(t, ctx.Err())
		if first {
			stopA()
		} else {
			stopB()
		}
		<-ctx.Done()
		cancel()
		stopA()
		stopB()
	}
}
