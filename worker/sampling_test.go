package worker

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

// withSettings copies the small Llama with recommended settings in its metadata.
func withSettings(t *testing.T) string {
	t.Helper()
	f, err := gguf.Open(tiny)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	meta := f.Meta()
	meta.Set("general.sampling.temp", float32(0.7))
	meta.Set("general.sampling.top_k", int32(2))
	path := filepath.Join(t.TempDir(), "model.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(out, meta, f.Tensors()))
	require.NoError(t, out.Close())
	return path
}

// Workers with and without recommended settings do not mix their answers. A row that sets no
// sampling option gets the settings, and a row that sets one does not. The log says in what the
// workers differ, and statistics and system_fingerprint show the settings.
func TestRecommendedSampling(t *testing.T) {
	t.Parallel()
	path := withSettings(t)
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		open := func(recommended bool) *bench {
			backend, err := cpu.New(1)
			require.NoError(t, err)
			eng, err := engine.Open(path, backend, engine.Options{Context: 64, Recommended: recommended})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, eng.Close()) })
			w, err := New(eng, q, Config{Concurrency: 4, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			return &bench{queue: q, worker: w}
		}
		recommended, plain := open(true), open(false)
		var log bytes.Buffer
		plain.worker.log = slog.New(slog.NewTextHandler(&log, nil))
		plain.worker.refusals.pause = 200 * time.Millisecond
		for _, b := range []*bench{recommended, plain} {
			b.worker.model.run(t.Context())
		}
		const row = `"prompt":"Once upon a time","max_tokens":24,"seed":11`
		recommended.enqueue(t, `{"custom_id":"first",`+row+`}
{"custom_id":"unset",`+row+`}
{"custom_id":"set",`+row+`,"temperature":0.7,"top_k":2}
{"custom_id":"one",`+row+`,"temperature":1}
{"custom_id":"plain",`+row+`,"temperature":1,"top_p":1}
`, enqueue.Options{})
		origin, _ := recommended.worker.model.known()
		require.Equal(t, "temperature=0.7,top_k=2", origin.Sampling)
		r, err := openai.ParseRequest(openai.Completions, []byte(`{"prompt":"a"}`))
		require.NoError(t, err)
		j := &queue.Job{Batch: "b", Line: 1, Sum: "00000001", CustomID: "first"}
		_, err = q.Record(t.Context(), "b", queue.Answered(j, r, nil, time.Now(), queue.Stats{Origin: origin}))
		require.NoError(t, err)
		stopOther := plain.start(t)
		require.Eventually(t, func() bool {
			plain.worker.refusals.mu.Lock()
			defer plain.worker.refusals.mu.Unlock()
			return len(plain.worker.refusals.logged) > 0
		}, time.Minute, time.Millisecond)
		stop := recommended.start(t)
		rows := recommended.results(t)
		stopOther()
		stop()
		require.Contains(t, log.String(), "answers with temperature=0.7,top_k=2 for rows that set no sampling option; this worker has --sampling plain")
		text := func(id string) string {
			require.Nil(t, rows[id].Error, id)
			return rows[id].Response.Body.Choices[0].Text
		}
		require.Equal(t, text("set"), text("unset"))
		require.Equal(t, text("plain"), text("one"))
		require.NotEqual(t, text("plain"), text("unset"))
		require.Equal(t, origin.Sampling, rows["unset"].Stats.Sampling)
		require.Equal(t, rows["unset"].Stats.Fingerprint(), rows["unset"].Response.Body.Fingerprint)
		require.Regexp(t, `-64-[0-9a-f]{8}$`, rows["unset"].Response.Body.Fingerprint)
	})
}
