package local_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/job/redisqueue"
	"github.com/ingot-run/ingot/job/redistest"
	"github.com/ingot-run/ingot/local"
	"github.com/ingot-run/ingot/rows"
	"github.com/ingot-run/ingot/worker"
)

const (
	workRows    = 400
	workPrompt  = 32
	workAnswer  = 64
	workAtOnce  = 16
	workRequest = `{"custom_id":"row-%d","prompt":%s,"max_tokens":%d,"temperature":0,"ignore_eos":true}` + "\n"
)

// BenchmarkQueueWork compares the engine alone with a run, and with a worker on a real Redis, on the same 400 prompts for the
// bundled model. Both are measured in turns, and what the queue adds is the median of the ratios: of the time that passed, and of
// the processor time of this process, which other programs disturb less.
func BenchmarkQueueWork(b *testing.B) {
	backend, err := cpu.New(runtime.GOMAXPROCS(0))
	require.NoError(b, err)
	eng, err := engine.Open(filepath.Join("..", "models", "tiny-glm.q8_0.gguf"), backend,
		engine.Options{Context: 128, MaxSequences: workAtOnce, Draft: engine.DraftOff, NoSharing: true})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, eng.Close()) })
	_, err = eng.SHA256(b.Context()) // it occupies a processor
	require.NoError(b, err)

	b.Run("run", func(b *testing.B) {
		compareWork(b, eng, func(b *testing.B, file string) (work, finish func()) {
			out, err := rows.OpenOutput(filepath.Join(b.TempDir(), "out.jsonl"), local.Batch)
			require.NoError(b, err)
			return func() {
				sum, err := local.Run(b.Context(), eng, strings.NewReader(file), out, local.Options{Concurrency: workAtOnce, Logger: quiet})
				require.NoError(b, err)
				require.Equal(b, workRows, sum.Done-sum.Failed)
			}, func() { require.NoError(b, out.Close()) }
		})
	})
	b.Run("redis", func(b *testing.B) {
		server := redistest.Start(b)
		require.NoError(b, server.Client.ConfigSet(b.Context(), "appendfsync", "everysec").Err()) // as it is by default
		queue := redisqueue.New(server.Client)
		batch := 0
		compareWork(b, eng, func(b *testing.B, file string) (work, finish func()) {
			batch++
			id := fmt.Sprintf("batch-%d", batch)
			_, err := enqueue.Enqueue(b.Context(), queue, strings.NewReader(file), enqueue.Options{Batch: id})
			require.NoError(b, err)
			w, err := worker.New(eng, queue, worker.Config{Concurrency: workAtOnce, Logger: quiet})
			require.NoError(b, err)
			working, stop := context.WithCancel(b.Context())
			var group errgroup.Group
			return func() {
					group.Go(func() error { return w.Run(working) })
					var text bytes.Buffer
					got, err := enqueue.Collect(b.Context(), queue, rows.NewOutput(&text, id), enqueue.CollectOptions{Follow: true})
					require.NoError(b, err)
					require.Equal(b, enqueue.Collected{Written: workRows, Finished: true}, got)
				}, func() {
					stop()
					require.NoError(b, group.Wait())
				}
		})
	})
}

// compareWork runs the same prompts through the engine alone and through a queue, in turns. prepare queues
// them; work answers and collects them.
func compareWork(b *testing.B, eng *engine.Engine, prepare func(b *testing.B, file string) (work, finish func())) {
	r := rand.New(rand.NewPCG(1, 1))
	var file strings.Builder
	requests := make([]generation.Request, workRows)
	for i := range requests {
		prompt := make([]int32, workPrompt)
		for p := range prompt {
			prompt[p] = 50 + r.Int32N(1900)
		}
		requests[i] = generation.Request{Tokens: prompt, MaxTokens: workAnswer, IgnoreEOS: true}
		fmt.Fprintf(&file, workRequest, i+1, strings.ReplaceAll(fmt.Sprint(prompt), " ", ","), workAnswer)
	}
	var elapsed, used []float64
	measure := func(f func()) (wall, processor time.Duration) {
		start, before := time.Now(), processorTime(b)
		f()
		return time.Since(start), processorTime(b) - before
	}
	alone := func() { generateAll(b, eng, requests) }
	alone() // warm up
	for n := 0; b.Loop(); n++ {
		queued, finish := prepare(b, file.String())
		var both [2][2]time.Duration
		for _, i := range [2]int{n % 2, 1 - n%2} {
			both[i][0], both[i][1] = measure([]func(){alone, queued}[i])
		}
		finish()
		elapsed = append(elapsed, float64(both[1][0])/float64(both[0][0]))
		used = append(used, float64(both[1][1])/float64(both[0][1]))
		b.Logf("alone %v, processor %v; queued %v, processor %v", both[0][0], both[0][1], both[1][0], both[1][1])
	}
	for name, ratios := range map[string][]float64{"%-of-time": elapsed, "%-of-processor": used} {
		slices.Sort(ratios)
		b.ReportMetric(100*(ratios[len(ratios)/2]-1), name)
	}
}

func generateAll(b *testing.B, eng *engine.Engine, requests []generation.Request) {
	var group errgroup.Group
	group.SetLimit(workAtOnce)
	for _, r := range requests {
		group.Go(func() error {
			_, err := eng.Generate(b.Context(), r)
			return err
		})
	}
	require.NoError(b, group.Wait())
}

// processorTime returns the time that this process has spent on processors.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
