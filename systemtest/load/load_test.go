package main

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/serve"
	"github.com/ingot-run/ingot/serve/batch"
)

// TestMain gives engines the costs of their steps.
func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	os.Exit(m.Run())
}

// In a short run, no request and no row of the batch fails.
func TestLoad(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	backend, err := cpu.New(2)
	require.NoError(t, err)
	eng, err := engine.Open(filepath.Join("..", "..", "models", "tiny-llama.q4_0.gguf"), backend, engine.Options{Memory: 256 << 20, MaxSequences: 8})
	require.NoError(t, err)
	engines := map[string]*engine.Engine{"tiny": eng}
	answerer, err := serve.NewAlone(engines, "test")
	require.NoError(t, err)
	store, err := batch.Open(t.TempDir(), batch.Options{Logger: quiet})
	require.NoError(t, err)
	s := serve.New(serve.Options{Answerer: answerer, Store: store, Logger: quiet})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		store.Run(ctx, batch.NewAlone(engines, batch.AloneOptions{Concurrency: 8, Logger: quiet}))
	}()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		web.Close()
		stop()
		<-ended
		require.NoError(t, store.Close())
		require.NoError(t, eng.Close())
	})
	r, err := run(bounded.Context(t), options{url: web.URL, model: "tiny", clients: 16, time: time.Second, idle: 3, rows: 2000, tokens: 16})
	require.NoError(t, err)
	require.Zero(t, r.failed, r.failure)
	require.Len(t, r.idle, 3)
	require.GreaterOrEqual(t, r.requests, 16)
	require.NotEmpty(t, r.loaded)
	require.Positive(t, r.tokens)
}
