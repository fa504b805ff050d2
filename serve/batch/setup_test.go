package batch_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/serve/batch"
	"github.com/ingot-run/ingot/worker"
)

const patience = 60 * time.Second

var quiet = slog.New(slog.DiscardHandler)

func openMicro() (*engine.Engine, error) {
	backend, err := cpu.New(1)
	if err != nil {
		return nil, err
	}
	return engine.Open(filepath.Join("..", "..", "engine", "model", "testdata", "micro-llama.gguf"), backend, engine.Options{})
}

// gated is an engine that answers one row for each value of free, and all rows after free is
// closed.
type gated struct {
	*engine.Engine
	free chan struct{} // one value allows one row; closing it allows all
}

func (g gated) Generate(ctx context.Context, r generation.Request) (generation.Completion, error) {
	select {
	case <-g.free:
	case <-ctx.Done():
		return generation.Completion{}, ctx.Err()
	}
	return g.Engine.Generate(ctx, r)
}

// bench is a store that runs its batches on a micro model with the name micro.
type bench struct {
	*batch.Store
	folder string
	gate   gated
	stop   func() // stops Run and closes the store
}

// setUp opens a store that answers all rows.
func setUp(t testing.TB) *bench {
	t.Helper()
	b := setUpGated(t, t.TempDir())
	close(b.gate.free)
	return b
}

// setUpGated opens a store that answers no row until its gate allows rows.
func setUpGated(t testing.TB, folder string) *bench {
	t.Helper()
	eng, err := openMicro()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close()) })
	g := gated{eng, make(chan struct{}, 1000)}
	return start(t, folder, g, batch.NewAlone(map[string]worker.Engine{"micro": g}, batch.AloneOptions{Concurrency: 8, Version: "test", Logger: quiet}))
}

// start opens a store and runs its batches with a runner.
func start(t testing.TB, folder string, g gated, r batch.Runner) *bench {
	t.Helper()
	return startLogging(t, folder, g, r, quiet)
}

func startLogging(t testing.TB, folder string, g gated, r batch.Runner, log *slog.Logger) *bench {
	t.Helper()
	s, err := batch.Open(folder, batch.Options{MaxFileBytes: 1 << 20, Logger: log})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx, r)
	}()
	b := &bench{Store: s, folder: folder, gate: g}
	stopped := false
	b.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		<-ended
		require.NoError(t, s.Close())
	}
	t.Cleanup(func() { b.stop() })
	return b
}

// upload adds an input file to the store.
func upload(t testing.TB, s *batch.Store, text string) batch.File {
	t.Helper()
	u, err := s.NewUpload()
	require.NoError(t, err)
	_, err = io.WriteString(u, text)
	require.NoError(t, err)
	f, err := s.AddFile(u, "rows.jsonl", batch.PurposeInput, 0)
	require.NoError(t, err)
	return f
}

func create(t testing.TB, s *batch.Store, input string) batch.Batch {
	t.Helper()
	b, err := s.CreateBatch(batch.Request{InputFileID: upload(t, s, input).ID, Endpoint: openai.Completions})
	require.NoError(t, err)
	require.Equal(t, batch.Validating, b.Status)
	return b
}

// await waits until a batch fulfils a condition, and returns the batch.
func await(t testing.TB, s *batch.Store, id string, done func(batch.Batch) bool) batch.Batch {
	t.Helper()
	var b batch.Batch
	require.Eventually(t, func() bool {
		var err error
		b, err = s.Batch(id)
		return err == nil && done(b)
	}, patience, 2*time.Millisecond, "%+v", &b)
	return b
}

func ended(b batch.Batch) bool { return b.Status.Ended() }

// row returns the input line of a completion.
func row(id string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/completions","body":{"model":"micro","prompt":[300,%d],"max_tokens":2}}`+"\n", id, 400+len(id))
}

// bad returns an input line whose row fails.
func bad(id string) string {
	return strings.Replace(row(id), `"max_tokens":2`, `"temperature":9`, 1)
}

// rowsOf returns n input lines.
func rowsOf(n int) string {
	var text strings.Builder
	for i := range n {
		text.WriteString(row(fmt.Sprintf("row-%d", i+1)))
	}
	return text.String()
}

// outputLine is a line of a batch's files.
type outputLine struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int             `json:"status_code"`
		RequestID  string          `json:"request_id"`
		Body       json.RawMessage `json:"body"`
	} `json:"response"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// lines returns the lines of a batch's file by custom_id. If id is nil, it returns none.
func lines(t testing.TB, s *batch.Store, id *string) map[string]outputLine {
	t.Helper()
	found := map[string]outputLine{}
	if id == nil {
		return found
	}
	content, f, err := s.OpenFile(*id)
	require.NoError(t, err)
	defer content.Close()
	require.Equal(t, batch.PurposeOutput, f.Purpose)
	size := int64(0)
	in := bufio.NewScanner(content)
	for in.Scan() {
		size += int64(len(in.Bytes())) + 1
		var l outputLine
		require.NoError(t, json.Unmarshal(in.Bytes(), &l), in.Text())
		require.NotContains(t, found, l.CustomID)
		found[l.CustomID] = l
	}
	require.NoError(t, in.Err())
	require.Equal(t, f.Bytes, size)
	return found
}

// requireWhole checks that each of n rows is in exactly one file of a batch that has ended. It
// returns the lines of both files.
func requireWhole(t testing.TB, s *batch.Store, b batch.Batch, n int) (output, failed map[string]outputLine) {
	t.Helper()
	output, failed = lines(t, s, b.OutputFileID), lines(t, s, b.ErrorFileID)
	require.Equal(t, batch.Counts{Total: n, Completed: len(output), Failed: len(failed)}, b.RequestCounts)
	require.Equal(t, n, len(output)+len(failed))
	ids := map[string]bool{}
	for id, l := range output {
		require.NotContains(t, failed, id)
		require.Equal(t, 200, l.Response.StatusCode)
		require.Nil(t, l.Error)
		ids[l.ID] = true
	}
	for _, l := range failed {
		ids[l.ID] = true
	}
	require.Len(t, ids, n)
	require.Equal(t, b.OutputFileID == nil, len(output) == 0)
	require.Equal(t, b.ErrorFileID == nil, len(failed) == 0)
	return output, failed
}
