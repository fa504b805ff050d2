package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/serve/batch"
	"github.com/ingot-run/ingot/worker"
)

func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	os.Exit(m.Run())
}

// stored is a console with a store. run answers the store's batches with a micro model until the
// test ends.
type stored struct {
	*Console
	folder string
	run    func()
}

func newStored(t *testing.T) *stored {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s := &stored{Console: newConsole(), folder: t.TempDir()}
	store, err := batch.Open(s.folder, batch.Options{Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s.Store = store
	s.run = func() {
		backend, err := cpu.New(1)
		require.NoError(t, err)
		eng, err := engine.Open(filepath.Join("..", "..", "engine", "model", "testdata", "micro-llama.gguf"), backend, engine.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			store.Run(ctx, batch.NewAlone(map[string]worker.Engine{"micro": eng}, batch.AloneOptions{Version: "test", Logger: quiet}))
		}()
		t.Cleanup(func() {
			cancel()
			<-ended
			require.NoError(t, eng.Close())
		})
	}
	return s
}

// upload adds an input file with rows that are answered and rows that fail.
func (s *stored) upload(t *testing.T, answered, failed int) string {
	t.Helper()
	u, err := s.Store.NewUpload()
	require.NoError(t, err)
	for i := range answered + failed {
		temperature := 1
		if i >= answered {
			temperature = 9
		}
		_, err = fmt.Fprintf(u, `{"custom_id":"row-%d.","method":"POST","url":"/v1/completions","body":{"model":"micro","prompt":[300,%d],"max_tokens":2,"temperature":%d}}`+"\n",
			i, 400+i, temperature)
		require.NoError(t, err)
	}
	f, err := s.Store.AddFile(u, "rows.jsonl", batch.PurposeInput, 0)
	require.NoError(t, err)
	return f.ID
}

func (s *stored) create(t *testing.T, input string) batch.Batch {
	t.Helper()
	b, err := s.Store.CreateBatch(batch.Request{InputFileID: input, Endpoint: openai.Completions})
	require.NoError(t, err)
	return b
}

func (s *stored) ended(t *testing.T, id string) (b batch.Batch) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		b, err = s.Store.Batch(id)
		return err == nil && b.Status.Ended()
	}, time.Minute, 2*time.Millisecond)
	return b
}

func (s *stored) page(t *testing.T, pattern, path, id string) string {
	t.Helper()
	r := get(t, path)
	r.SetPathValue("id", id)
	w, err := serve(t, s.Console, pattern, r)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

// The page of a batch that has ended shows the first rows of its files, and that a file cannot be
// read. A file that a client has deleted is no problem.
func TestPageOfABatch(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	made := s.create(t, s.upload(t, shownRows+2, shownRows+1))
	show := func() string { return s.page(t, "GET /console/batches/{id}", "/console/batches/"+made.ID, made.ID) }
	require.Contains(t, show(), "Batch "+made.ID)
	require.Contains(t, show(), "Expires")
	require.NotContains(t, show(), "First")

	s.run()
	done := s.ended(t, made.ID)
	text := show()
	require.Equal(t, 2*shownRows, strings.Count(text, "<dt>row-"))
	answers, failures, _ := strings.Cut(text, "First failed rows")
	require.Contains(t, answers, "First answers")
	require.Equal(t, shownRows, strings.Count(answers, "<dt>row-"))
	require.Contains(t, failures, "temperature")
	require.Contains(t, text, "tokens/s")
	require.NotContains(t, text, "Expires")
	require.NotContains(t, text, "problem: ")

	for _, id := range []string{*done.OutputFileID, *done.ErrorFileID} { // a folder can be opened, but not be read as a file
		path := filepath.Join(s.folder, "files", id+".jsonl")
		require.NoError(t, os.Rename(path, path+".away"))
		require.NoError(t, os.Mkdir(path, 0o700))
		text = show()
		require.Contains(t, text, "problem: read file "+id)
		require.Equal(t, shownRows, strings.Count(text, "<dt>row-"))
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Symlink(path, path)) // cannot be opened
		require.Contains(t, show(), "problem: open ")
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Rename(path+".away", path))
	}
	require.NoError(t, s.Store.DeleteFile(*done.OutputFileID))
	text = show()
	require.NotContains(t, text, "problem: ")
	require.NotContains(t, text, "First answers")
	require.Contains(t, text, "First failed rows")

	_, err := serve(t, s.Console, "GET /console/batches/{id}", get(t, "/console/batches/x"))
	require.ErrorIs(t, err, batch.ErrNoBatch)
}

// Batches without answers or without failures have only one of the files.
func TestPageOfABatchWithOneFile(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	right, wrong := s.create(t, s.upload(t, 1, 0)), s.create(t, s.upload(t, 0, 1))
	s.run()
	s.ended(t, right.ID)
	s.ended(t, wrong.ID)
	for id, want := range map[string][2]bool{right.ID: {true, false}, wrong.ID: {false, true}} {
		text := s.page(t, "GET /console/batches/{id}", "/console/batches/"+id, id)
		require.Equal(t, want, [2]bool{strings.Contains(text, "First answers"), strings.Contains(text, "First failed rows")})
		require.NotContains(t, text, "problem: ")
	}
}

// Pages of the list follow each other, and the overview has only batches that have not ended.
func TestListOfBatches(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	gone := s.create(t, s.upload(t, 1, 0))
	s.run()
	s.ended(t, gone.ID)
	overview := s.page(t, "GET /{$}", "/", "")
	require.Contains(t, overview, "No batch is running")
	require.NotContains(t, overview, gone.ID)

	s = newStored(t) // its batches do not run
	input := s.upload(t, 1, 0)
	ids := make([]string, batchesPerPage+1)
	for i := range ids {
		ids[i] = s.create(t, input).ID
		if i == batchesPerPage-1 {
			text := s.page(t, "GET /console/batches", "/console/batches", "")
			require.NotContains(t, text, ">Older<")
			require.NotContains(t, text, ">Newest<")
			require.Equal(t, batchesPerPage, strings.Count(text, `href="/console/batches/batch_`))
		}
	}
	slices.Sort(ids)
	text := s.page(t, "GET /console/batches", "/console/batches", "")
	require.Equal(t, batchesPerPage, strings.Count(text, `href="/console/batches/batch_`))
	require.Contains(t, text, `<a href="/console/batches?after=`+ids[1]+`">Older</a>`)
	require.NotContains(t, text, ids[0])
	text = s.page(t, "GET /console/batches", "/console/batches?after="+ids[1], "")
	require.Equal(t, 1, strings.Count(text, `href="/console/batches/batch_`))
	require.Contains(t, text, ids[0])
	require.Contains(t, text, ">Newest<")
	require.NotContains(t, text, ">Older<")
	overview = s.page(t, "GET /{$}", "/", "")
	for _, id := range ids {
		require.Contains(t, overview, id)
	}
	_, err := serve(t, s.Console, "GET /console/batches", get(t, "/console/batches?after=other"))
	require.Error(t, err)

	c := newConsole()
	c.Queued = func(context.Context) ([]queue.Status, error) {
		return []queue.Status{{Batch: "running.", Total: 8, Done: 4}, {Batch: "done.", State: queue.Completed}, {Batch: "cancelled.", State: queue.Cancelled}}, nil
	}
	w, err := serve(t, c, "GET /{$}", get(t, "/"))
	require.NoError(t, err)
	require.Contains(t, w.Body.String(), "running.")
	require.NotContains(t, w.Body.String(), "done.")
	require.NotContains(t, w.Body.String(), "cancelled.")
}

// Cancelling leads back to the batch's page.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := newStored(t)
	made := s.create(t, s.upload(t, 1, 0))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/batches/"+made.ID+"/cancel", http.NoBody)
	r.SetPathValue("id", made.ID)
	w, err := serve(t, s.Console, "POST /console/batches/{id}/cancel", r)
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "/console/batches/"+made.ID, w.Header().Get("Location"))
	b, err := s.Store.Batch(made.ID)
	require.NoError(t, err)
	require.Equal(t, batch.Cancelling, b.Status)

	r.SetPathValue("id", "batch_none")
	w, err = serve(t, s.Console, "POST /console/batches/{id}/cancel", r)
	require.ErrorIs(t, err, batch.ErrNoBatch)
	require.Empty(t, w.Header())
}

// A line that is too long is empty, and the next one is read.
func TestReadLine(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", shownLine-1) + "\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":              {"", nil},
		"an empty line":        {"\n", []string{"\n"}},
		"without an end":       {"a", []string{"a"}},
		"as long as allowed":   {longest + "b\n", []string{longest, "b\n"}},
		"one byte too long":    {"x" + longest + "b\n", []string{"", "b\n"}},
		"too long, at the end": {"x" + longest[:shownLine-1] + "x", []string{""}},
	} {
		in := bufio.NewReaderSize(strings.NewReader(c.text), 64)
		var got []string
		for {
			line, err := readLine(in)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			got = append(got, string(line))
		}
		require.Equal(t, c.want, got, name)
	}
	_, err := readLine(bufio.NewReader(io.MultiReader(strings.NewReader("abc"), brokenReader{})))
	require.ErrorIs(t, err, errBroken)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

// The speed of the live workers is recorded every five seconds, and 0 if it is unknown, until the
// context is done.
func TestRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole()
		c.Log = slog.New(slog.DiscardHandler)
		asked := 0
		c.Workers = func(context.Context) ([]queue.Worker, error) {
			if asked++; asked == 3 {
				return nil, errBroken
			}
			return []queue.Worker{{TokensPerSecond: 30}, {TokensPerSecond: 6}, {TokensPerSecond: 500, Lost: time.Now()}}, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*historyStep+historyStep/2)
		defer cancel()
		c.Record(ctx)
		require.Equal(t, 4, asked)
		bars := c.history.bars()
		require.InDelta(t, 3*36.0/historyPerBar, bars[len(bars)-1], 1e-9)
	})
}

// A handler that returns an error has not written anything.
func TestPagesThatCannotBeRendered(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	err := newConsole().Show(w, get(t, "/"), http.StatusOK, "try.html", "Title", nil, 5)
	require.ErrorContains(t, err, "render the page try.html: ")
	require.Empty(t, w.Header())
	require.Empty(t, w.Body.String())
	_, err = contentOf(func() {})
	require.ErrorContains(t, err, "encode the answer: ")
}
