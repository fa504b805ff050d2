package serve_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

// TestRecommendedSampling: a request that sets no sampling option gets the settings in the model's
// file, from an engine of the server and from workers alike.
func TestRecommendedSampling(t *testing.T) {
	t.Parallel()
	f, err := gguf.Open(filepath.Join("..", "models", "tiny-llama.q4_0.gguf"))
	require.NoError(t, err)
	meta := f.Meta()
	meta.Set("general.sampling.temp", float32(0.7))
	meta.Set("general.sampling.top_k", int32(2))
	path := filepath.Join(t.TempDir(), "model.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(out, meta, f.Tensors()))
	require.NoError(t, out.Close())
	require.NoError(t, f.Close())
	open := func(recommended bool) *engine.Engine {
		backend, err := cpu.New(1)
		require.NoError(t, err)
		eng, err := engine.Open(path, backend, engine.Options{Memory: 256 << 20, MaxSequences: 4, Recommended: recommended})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, eng.Close()) })
		return eng
	}
	text := func(b *bench, settings string) string {
		var got struct{ Choices []struct{ Text string } }
		b.post(t, "/v1/completions", `{"model":"tiny","prompt":"Once upon a time","max_tokens":24,"seed":11`+settings+`}`, &got)
		return got.Choices[0].Text
	}
	const explicit, one = `,"temperature":0.7,"top_k":2`, `,"temperature":1`
	eng, plain := open(true), setUpOn(t, open(false), nil)
	want, fixed := text(plain, explicit), text(plain, "")
	require.NotEqual(t, want, fixed)
	check := func(b *bench) {
		require.Equal(t, want, text(b, ""))
		require.Equal(t, want, text(b, explicit))
		require.Equal(t, fixed, text(b, one))
	}
	check(setUpOn(t, eng, nil))
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		startWorker(t, q, eng)
		check(setUpFront(t, q, eng))
	})
}
