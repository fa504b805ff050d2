package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
)

// TestAWorkerIsStoppedWhileItWaitsForRedis: nothing was begun, so this is not an error.
func TestAWorkerIsStoppedWhileItWaitsForRedis(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	ctx, stop := context.WithCancel(bounded.Context(t))
	go func() {
		if c, err := silent.Accept(); err == nil {
			defer c.Close()
			stop()
			<-t.Context().Done()
		}
	}()
	var stderr bytes.Buffer
	code := run(ctx, []string{"worker", "--redis", "redis://" + silent.Addr().String(), "--model", tinyLlama}, strings.NewReader(""), io.Discard, &stderr)
	require.Zero(t, code, stderr.String())
	require.Empty(t, stderr.String())
}
