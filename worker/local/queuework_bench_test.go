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
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/drivers"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
	"github.com/ingot-run/ingot/worker"
	"github.com/ingot-run/ingot/worker/local"
)

const (
	workRows   = 12_800 // so many that start and end of the worker take a small part of the time
	workPrompt = 32
	workAnswer = 64 // mean number of tokens of an answer
	workAtOnce = 16
	workBody   = `"prompt":%s,"max_tokens":%d,"temperature":0,"ignore_eos":true}`
)

// BenchmarkQueueWork measures the work of the queue. All parts answer prompts for the bundled
// model, with answers of 32 to 96 tokens.
//
// "run" and "redis" compare the engine alone with a run, and with a worker on a real Redis, in
// turns. The engine leaves one processor to the queue, as a GPU does. "gpu" does what "redis" does
// with an engine on the machine's GPU. The reported overhead is the median of the ratios, once of
// the elapsed time and once of this process's CPU time.
//
// "paced" measures the queue's own CPU time: its engine only waits for about as long as the real
// one takes, and the worker's CPU time per row is compared with that of the engine alone on all
// processors. What rows need without a queue is also measured, and subtracted in the percentages:
// the request is parsed, the engine waits, and the answer is encoded. "wide" has eight times as
// many rows at once, as on a GPU.
func BenchmarkQueueWork(b *testing.B) {
	b.Run("gpu", func(b *testing.B) { compareGPU(b, workAtOnce) })
	b.Run("gpu-wide", func(b *testing.B) { compareGPU(b, 8*workAtOnce) })
	spare := openWork(b, spareProcessor(b), workAtOnce)
	b.Run("run", func(b *testing.B) {
		compareWork(b, spare, workAtOnce, func(b *testing.B, file string) (work, finish func()) {
			out, err := rows.OpenOutput(filepath.Join(b.TempDir(), "out.jsonl"), local.Batch)
			require.NoError(b, err)
			return func() {
				sum, err := local.Run(b.Context(), spare, strings.NewReader(file), out, local.Options{Concurrency: workAtOnce, Logger: quiet})
				require.NoError(b, err)
				require.Equal(b, workRows, sum.Done-sum.Failed)
			}, func() { require.NoError(b, out.Close()) }
		})
	})
	b.Run("redis", func(b *testing.B) {
		compareWork(b, spare, workAtOnce, throughRedis(b, redistest.Start(b), spare, workAtOnce))
	})
	b.Run("redis-wide", func(b *testing.B) {
		wide := openWork(b, spareProcessor(b), 8*workAtOnce)
		compareWork(b, wide, 8*workAtOnce, throughRedis(b, redistest.Start(b), wide, 8*workAtOnce))
	})
	backend, err := cpu.New(runtime.GOMAXPROCS(0))
	require.NoError(b, err)
	all := openWork(b, backend, workAtOnce)
	b.Run("paced", func(b *testing.B) { measureParts(b, all, workAtOnce) })
	b.Run("paced-wide", func(b *testing.B) { measureParts(b, all, 8*workAtOnce) })
}

// spareProcessor returns a CPU backend that uses all processors but one.
func spareProcessor(b *testing.B) compute.Backend {
	backend, err := cpu.New(max(1, runtime.GOMAXPROCS(0)-1))
	require.NoError(b, err)
	return backend
}

// compareGPU compares an engine on the GPU with a worker on a real Redis.
func compareGPU(b *testing.B, atOnce int) {
	device, err := drivers.OpenAuto(0)
	if err != nil {
		b.Skipf("needs a GPU: %v", err)
	}
	backend, err := metal.New(device, metal.Options{})
	require.NoError(b, err)
	eng := openWork(b, backend, atOnce)
	compareWork(b, eng, atOnce, throughRedis(b, redistest.Start(b), eng, atOnce))
}

// openWork opens an engine that computes a number of rows at once.
func openWork(b *testing.B, backend compute.Backend, atOnce int) *engine.Engine {
	eng, err := engine.Open(filepath.Join("..", "..", "models", "tiny-glm.q8_0.gguf"), backend,
		engine.Options{Context: 128, MaxSequences: atOnce, Draft: engine.DraftOff, NoSharing: true})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, eng.Close()) })
	_, err = eng.SHA256(b.Context()) // computed before the measurement, since it uses a whole processor
	require.NoError(b, err)
	return eng
}

// measureParts reports the median CPU time per row of the engine, of a worker whose engine only
// waits, of the same rows without a queue, of a collector, and of the Redis server. The worker
// answers atOnce rows at a time; the engine answers fewer rows in all.
func measureParts(b *testing.B, eng *engine.Engine, atOnce int) {
	server := redistest.Start(b)
	queue := newRedisQueue(b, server)
	_, requests := workload(workRows / 8)
	file, _ := workload(workRows)
	generateAll(b, eng, requests, workAtOnce) // warm up
	parts := map[string][]float64{}
	measure := func(part string, rows int, used func() time.Duration, work func()) {
		before := used()
		work()
		parts[part] = append(parts[part], float64((used()-before).Microseconds())/float64(rows))
	}
	process := func() time.Duration { return processorTime(b) }
	for i := 0; b.Loop(); i++ {
		measure("engine", len(requests), process, func() { generateAll(b, eng, requests, workAtOnce) })
		measure("without-queue", workRows, process, func() { answerAll(b, newPaced(atOnce), file, 2*atOnce) })
		batch := fmt.Sprintf("batch-%d", i)
		_, err := enqueue.Enqueue(b.Context(), queue, strings.NewReader(file), enqueue.Options{Batch: batch})
		require.NoError(b, err)
		scripts := scriptsRun(b, server)
		measure("redis", workRows, func() time.Duration { return redisTime(b, server) }, func() {
			measure("worker", workRows, process, func() { serveUntil(b, queue, batch, atOnce) })
		})
		parts["scripts"] = append(parts["scripts"], (scriptsRun(b, server)-scripts)/workRows)
		measure("collector", workRows, process, func() { collect(b, queue, batch, workRows) })
	}
	medians := map[string]float64{}
	for part, times := range parts {
		slices.Sort(times)
		medians[part] = times[len(times)/2]
		unit := part + "-µs/row"
		if part == "scripts" {
			unit = "scripts/row"
		}
		b.ReportMetric(medians[part], unit)
	}
	own := medians["worker"] - medians["without-queue"]
	b.ReportMetric(100*own/medians["engine"], "worker-%-of-engine")
	b.ReportMetric(100*(own+medians["redis"])/medians["engine"], "worker+redis-%-of-engine")
}

// serveUntil runs a worker until a batch is finished.
func serveUntil(b *testing.B, q queue.Queue, batch string, atOnce int) {
	w, err := worker.New(newPaced(atOnce), q, worker.Config{Concurrency: atOnce, Prefetch: atOnce, Logger: quiet})
	require.NoError(b, err)
	working, stop := context.WithCancel(b.Context())
	var group errgroup.Group
	group.Go(func() error { return w.Run(working) })
	require.NoError(b, enqueue.Watch(b.Context(), q, batch, func(queue.Status) {}))
	stop()
	require.NoError(b, group.Wait())
}

func collect(b *testing.B, queue queue.Queue, batch string, n int) {
	var text bytes.Buffer
	got, err := enqueue.Collect(b.Context(), queue, rows.NewOutput(&text, batch), enqueue.CollectOptions{Follow: true})
	require.NoError(b, err)
	require.Equal(b, enqueue.Collected{Written: n, Finished: true}, got)
}

func redisTime(b *testing.B, server *redistest.Server) time.Duration {
	info, err := server.Client.InfoMap(b.Context(), "cpu").Result()
	require.NoError(b, err)
	var seconds float64
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		n, err := strconv.ParseFloat(info["CPU"][name], 64)
		require.NoError(b, err)
		seconds += n
	}
	return time.Duration(seconds * float64(time.Second))
}

// scriptsRun returns the number of scripts that a server has run for its clients. Nearly all
// commands that clients send are scripts.
func scriptsRun(b *testing.B, server *redistest.Server) float64 {
	info, err := server.Client.InfoMap(b.Context(), "commandstats").Result()
	require.NoError(b, err)
	calls := regexp.MustCompile(`calls=(\d+)`).FindStringSubmatch(info["Commandstats"]["cmdstat_evalsha"])
	require.NotNil(b, calls)
	n, err := strconv.ParseFloat(calls[1], 64)
	require.NoError(b, err)
	return n
}

// paced is an engine whose answers take time but no CPU. It computes a number of them at once; the
// others wait.
type paced struct{ atOnce chan struct{} }

func newPaced(atOnce int) paced { return paced{make(chan struct{}, atOnce)} }

func (paced) Info() engine.Info                      { return engine.Info{Model: "paced", Context: 128} }
func (paced) SHA256(context.Context) (string, error) { return strings.Repeat("0", 64), nil }
func (paced) Snapshot() engine.Snapshot              { return engine.Snapshot{} }

func (p paced) Generate(ctx context.Context, r generation.Request) (generation.Completion, error) {
	select {
	case <-ctx.Done():
		return generation.Completion{}, ctx.Err()
	case p.atOnce <- struct{}{}:
		defer func() { <-p.atOnce }()
	}
	select {
	case <-ctx.Done():
		return generation.Completion{}, ctx.Err()
	case <-time.After(time.Duration(r.MaxTokens) * 800 * time.Microsecond):
		return generation.Completion{Choices: []generation.Choice{{Text: strings.Repeat("word ", r.MaxTokens), FinishReason: generation.FinishLength}}}, nil
	}
}

// newRedisQueue returns the queue of a server with an append-only file and Redis's default
// durability settings.
func newRedisQueue(b *testing.B, server *redistest.Server) *redisqueue.Queue {
	require.NoError(b, server.Client.ConfigSet(b.Context(), "appendfsync", "everysec").Err())
	return redisqueue.New(server.Client)
}

// throughRedis returns a function for compareWork. It queues rows on a real Redis and answers them
// with a worker, atOnce at a time.
func throughRedis(b *testing.B, server *redistest.Server, eng worker.Engine, atOnce int) func(b *testing.B, file string) (work, finish func()) {
	queue := newRedisQueue(b, server)
	batch := 0
	return func(b *testing.B, file string) (work, finish func()) {
		batch++
		id := fmt.Sprintf("batch-%d", batch)
		_, err := enqueue.Enqueue(b.Context(), queue, strings.NewReader(file), enqueue.Options{Batch: id})
		require.NoError(b, err)
		w, err := worker.New(eng, queue, worker.Config{Concurrency: atOnce, Prefetch: atOnce, Logger: quiet})
		require.NoError(b, err)
		working, stop := context.WithCancel(b.Context())
		var group errgroup.Group
		return func() {
				group.Go(func() error { return w.Run(working) })
				collect(b, queue, id, workRows)
			}, func() {
				stop()
				require.NoError(b, group.Wait())
			}
	}
}

// compareWork answers the same prompts with the engine alone, atOnce at a time, and through a
// queue, in turns. prepare queues the rows; work answers and collects them.
func compareWork(b *testing.B, eng *engine.Engine, atOnce int, prepare func(b *testing.B, file string) (work, finish func())) {
	file, requests := workload(workRows)
	var elapsed, used []float64
	measure := func(f func()) (wall, processor time.Duration) {
		start, before := time.Now(), processorTime(b)
		f()
		return time.Since(start), processorTime(b) - before
	}
	alone := func() { generateAll(b, eng, requests, 2*atOnce) } // as many rows wait in the engine as a worker takes ahead
	alone()                                                     // warm up
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

// workload returns a file of n rows, and the engine's requests for the same rows.
func workload(n int) (text string, requests []generation.Request) {
	r := rand.New(rand.NewPCG(1, 1))
	var file strings.Builder
	requests = make([]generation.Request, n)
	for i := range requests {
		prompt := make([]int32, workPrompt)
		for p := range prompt {
			prompt[p] = 50 + r.Int32N(1900)
		}
		answer := workAnswer/2 + r.IntN(workAnswer+1)
		requests[i] = generation.Request{Tokens: prompt, MaxTokens: answer, IgnoreEOS: true}
		fmt.Fprintf(&file, `{"custom_id":"row-%d",`+workBody+"\n", i+1, strings.ReplaceAll(fmt.Sprint(prompt), " ", ","), answer)
	}
	return file.String(), requests
}

func generateAll(b *testing.B, eng worker.Engine, requests []generation.Request, atOnce int) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, r := range requests {
		group.Go(func() error {
			_, err := eng.Generate(b.Context(), r)
			return err
		})
	}
	require.NoError(b, group.Wait())
}

// answerAll answers the rows of a file without a queue.
func answerAll(b *testing.B, eng worker.Engine, file string, atOnce int) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	line := 0
	for text := range strings.Lines(file) {
		line++
		id, body, _ := strings.Cut(strings.TrimPrefix(text, `{"custom_id":"`), `",`)
		j := &queue.Job{
			Batch: "b", Line: line, Sum: "0badcafe", CustomID: id, Endpoint: openai.Completions, Body: []byte("{" + body), EnqueuedMS: time.Now().UnixMilli(),
		}
		group.Go(func() error {
			r, err := j.Parse()
			if err != nil {
				return err
			}
			done, err := eng.Generate(b.Context(), j.Generation(r, 0))
			if err != nil {
				return err
			}
			result := queue.Answered(j, r, []generation.Completion{done}, time.Now(), queue.Stats{Attempts: 1})
			if result.Failed {
				return fmt.Errorf("row %d: %s", j.Line, result.Text)
			}
			return nil
		})
	}
	require.NoError(b, group.Wait())
}

// processorTime returns the CPU time that this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
