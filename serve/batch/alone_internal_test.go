package batch

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/worker"
)

// plainEngine is an engine that answers nothing.
type plainEngine struct {
	worker.Engine
	chat bool
}

func (e plainEngine) Info() engine.Info { return engine.Info{Chat: e.chat} }

// Alone returns the errors of a batch that it cannot run, and the next batch has its turn.
func TestAloneCannotRun(t *testing.T) {
	t.Parallel()
	a := NewAlone(map[string]plainEngine{"m": {}, "chat": {chat: true}}, AloneOptions{})
	models, err := a.Models(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"chat", "m"}, models)
	never, broken := t.Context(), errors.New("broken")
	var opened int
	var warnings []string
	task := Task{
		Batch: "b", Model: "m", Input: filepath.Join(t.TempDir(), "none"), Continued: 1,
		Warn:    func(text string) { warnings = append(warnings, text) },
		Results: func() (*rows.Output, error) { opened++; return rows.NewOutput(&bytes.Buffer{}, "b"), nil },
	}
	require.ErrorIs(t, a.Run(t.Context(), never, task), fs.ErrNotExist)
	require.Equal(t, 1, opened)
	require.Empty(t, warnings)
	chats := task
	chats.Model = "chat"
	require.ErrorIs(t, a.Run(t.Context(), never, chats), fs.ErrNotExist)
	require.Len(t, warnings, 1)
	other := task
	other.Model = "n"
	require.EqualError(t, a.Run(t.Context(), never, other), `model "n" is not loaded: start the server with --model n=FILE`)
	fails := task
	fails.Results = func() (*rows.Output, error) { return nil, broken }
	require.ErrorIs(t, a.Run(t.Context(), never, fails), broken)
	stopped, stop := context.WithCancel(t.Context())
	fails.Results = func() (*rows.Output, error) { stop(); return nil, broken }
	require.ErrorIs(t, a.Run(t.Context(), stopped, fails), broken, "an error of a stopped batch is reported")
	fails.Results = func() (*rows.Output, error) { return nil, context.Canceled }
	require.ErrorIs(t, a.Run(t.Context(), never, fails), context.Canceled)
	require.Equal(t, 1, a.engines["m"].free)

	require.NoError(t, a.engines["m"].take(t.Context(), "other"))
	opened = 0
	require.NoError(t, a.Run(t.Context(), stopped, task), "stopped while it waits")
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, a.Run(ended, never, task), context.Canceled)
	require.Zero(t, opened)
	require.NoError(t, a.Forget(t.Context(), "b"))
}

// The log of a worker in a server has warnings alone.
func TestQuietLog(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := quiet(slog.New(slog.NewTextHandler(&text, nil)))
	for _, l := range []*slog.Logger{log, log.With("a", 1), log.WithGroup("g")} {
		text.Reset()
		l.Info("one", "b", 2)
		require.Empty(t, text.String())
		l.Warn("two", "b", 2)
		require.Contains(t, text.String(), "level=WARN msg=two")
	}
	errorsOnly := quiet(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelError})))
	require.False(t, errorsOnly.Enabled(t.Context(), slog.LevelWarn))
	require.True(t, errorsOnly.Enabled(t.Context(), slog.LevelError))
	require.True(t, quiet(nil).Enabled(t.Context(), slog.LevelWarn))
	require.False(t, quiet(nil).Enabled(t.Context(), slog.LevelInfo))
}
