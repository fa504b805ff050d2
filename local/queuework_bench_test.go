package local_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
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
	workAnswer  = 64 // mean
	workAtOnce  = 16
	workRequest = `{"custom_id":"row-%d","prompt":%s,"max_tokens":%d,"temperature":0,"ignore_eos":true}` + "\n"
)

// BenchmarkQueueWork compares the engine alone with a run, and with a worker on a real Redis, on the same 400 prompts for the
// bundled model, with answers of 32 to 96 tokens. Both are measured in turns, and what the queue adds is the median of the ratios: of the
// time that passed, and of the processor time of this process, which other programs disturb less.
//
// The engine's threads spin while they wait for each other, so that anything else that runs on their processors makes them use more. What
// the queue itself uses is therefore measured apart: "paced" has an engine that only waits for about as long as the real one takes,
// and compares the processor time per row with that of the engine alone.
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
		compareWork(b, eng, throughRedis(b, redistest.Start(b), eng))
	})
	b.Run("paced", func(b *testing.B) {
		server := redistest.Start(b)
		prepare := throughRedis(b, server, paced{eng})
		file, requests := workload()
		generateAll(b, eng, requests) // warm up
		var engines, queues, scripts []float64
		for b.Loop() {
			start := processorTime(b)
			generateAll(b, eng, requests)
			engines = append(engines, float64((processorTime(b)-start).Microseconds())/workRows)
			work, finish := prepare(b, file)
			before := scriptsRun(b, server)
			start = processorTime(b)
			work()
			queues = append(queues, float64((processorTime(b)-start).Microseconds())/workRows)
			scripts = append(scripts, (scriptsRun(b, server)-before)/workRows)
			finish()
		}
		slices.Sort(scripts)
		slices.Sort(engines)
		slices.Sort(queues)
		own, engine := queues[len(queues)/2], engines[len(engines)/2]
		b.ReportMetric(scripts[len(scripts)/2], "scripts/row")
		b.ReportMetric(own, "queue-µs/row")
		b.ReportMetric(engine, "engine-µs/row")
		b.ReportMetric(100*own/engine, "%-of-processor")
	})
}

// scriptsRun returns the number of scripts that a server has run for its clients. Nearly all round trips are scripts.
func scriptsRun(b *testing.B, server *redistest.Server) float64 {
	info, err := server.Client.InfoMap(b.Context(), "commandstats").Result()
	require.NoError(b, err)
	calls := regexp.MustCompile(`calls=(\d+)`).FindStringSubmatch(info["Commandstats"]["cmdstat_evalsha"])
	require.NotNil(b, calls)
	n, err := strconv.ParseFloat(calls[1], 64)
	require.NoError(b, err)
	return n
}

// paced is an engine whose answers take time but no work.
type paced struct{ *engine.Engine }

func (paced) Generate(ctx context.Context, r generation.Request) (generation.Completion, error) {
	select {
	case <-ctx.Done():
		return generation.Completion{}, ctx.Err()
	case <-time.After(time.Duration(r.MaxTokens) * 800 * time.Microsecond):
		return generation.Completion{Choices: []generation.Choice{{Text: strings.Repeat("word ", r.MaxTokens), FinishReason: generation.FinishLength}}}, nil
	}
}

// throughRedis returns a function that prepares work through a worker on a real Redis.
func throughRedis(b *testing.B, server *redistest.Server, eng worker.Engine) func(b *testing.B, file string) (work, finish func()) {
	require.NoError(b, server.Client.ConfigSet(b.Context(), "appendfsync", "everysec").Err()) // as it is by default
	queue := redisqueue.New(server.Client)
	batch := 0
	return func(b *testing.B, file string) (work, finish func()) {
		batch++
		id := fmt.Sprintf("batch-%d", batch)
		_, err := enqueue.Enqueue(b.Context(), queue, strings.NewReader(file), enqueue.Options{Batch: id})
		require.NoError(b, err)
		w, err := worker.New(eng, queue, worker.Config{Concurrency: workAtOnce, Ahead: workAtOnce / 4, Logger: quiet})
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
	}
}

// compareWork runs the same prompts through the engine alone and through a queue, in turns. prepare queues
// them; work answers and collects them.
func compareWork(b *testing.B, eng *engine.Engine, prepare func(b *testing.B, file string) (work, finish func())) {
	file, requests := workload()
	var elapsed, used []float64
	measure := func(f func()) (wall, processor time.Duration) {
		start, before := time.Now(), processorTime(b)
		f()
		return time.Since(start), processorTime(b) - before
	}
	alone := func() { generateAll(b, eng, requests) }
	alone() // warm up
	for n := 0; b.Loop(); n++ {
		queued, finish := prepare(b, file)
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

// workload returns a file of rows, and the requests of the same rows.
func workload() (text string, requests []generation.Request) {
	r := rand.New(rand.NewPCG(1, 1))
	var file strings.Builder
	requests = make([]generation.Request, workRows)
	for i := range requests {
		prompt := make([]int32, workPrompt)
		for p := range prompt {
			prompt[p] = 50 + r.Int32N(1900)
		}
		answer := workAnswer/2 + r.IntN(workAnswer+1)
		requests[i] = generation.Request{Tokens: prompt, MaxTokens: answer, IgnoreEOS: true}
		fmt.Fprintf(&file, workRequest, i+1, strings.ReplaceAll(fmt.Sprint(prompt), " ", ","), answer)
	}
	return file.String(), requests
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
