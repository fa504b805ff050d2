package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
)

// The benchmarks of this file put an engine under load. Run them with -benchtime 1x. Environment
// variables change them: INGOT_BENCH_MODEL is a model file to use instead of the bundled one, such
// as one that `ingot bench --shape smollm-135m --write FILE` wrote; INGOT_BENCH_ROWS is the number
// of requests of a file; INGOT_BENCH_THREADS is the number of threads.

// meter is a backend that counts the rows of its steps, including drafting passes, and records when
// steps end.
type meter struct {
	compute.Backend
	b    *testing.B
	rows atomic.Int64

	mu    sync.Mutex
	ends  []time.Time
	spent []time.Duration // [ends] processor time
}

type meteredStep struct {
	compute.Step
	of *meter
}

func (m *meter) Begin(b *compute.Batch) compute.Step {
	m.rows.Add(int64(len(b.Tokens)))
	return meteredStep{m.Backend.Begin(b), m}
}

func (s meteredStep) Run() error {
	err := s.Step.Run()
	m := s.of
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends, m.spent = append(m.ends, time.Now()), append(m.spent, processorTime(m.b))
	return err
}

// spentBy returns the processor time at the end of the step that generated a token. A caller
// receives the token later, when the engine may be in another step.
func (m *meter) spentBy(token time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, _ := slices.BinarySearchFunc(m.ends, token, time.Time.Compare)
	return m.spent[max(i-1, 0)]
}

// openLoaded opens the model of a benchmark.
func openLoaded(b *testing.B, opts engine.Options) (*engine.Engine, *meter) {
	b.Helper()
	be := &meter{b: b, Backend: benchBackend(b)}
	return openOn(b, longModel(b), be, opts), be
}

func benchBackend(b *testing.B) *cpu.Backend {
	b.Helper()
	return backendOf(b, fromEnv(b, "INGOT_BENCH_THREADS", runtime.NumCPU()))
}

func fromEnv(b *testing.B, name string, def int) int {
	b.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(def)))
	require.NoError(b, err)
	return n
}

// longModel returns the path of a benchmark's model: INGOT_BENCH_MODEL, or a copy of the bundled
// model with a longer context than it was trained for.
func longModel(b *testing.B) string {
	b.Helper()
	if path := os.Getenv("INGOT_BENCH_MODEL"); path != "" {
		return path
	}
	f, err := gguf.Open("../models/tiny-glm.q8_0.gguf")
	require.NoError(b, err)
	meta := f.Meta()
	meta.Set("deepseek2.context_length", uint32(8192))
	var out bytes.Buffer
	require.NoError(b, gguf.Write(&out, meta, f.Tensors()))
	require.NoError(b, f.Close())
	path := filepath.Join(b.TempDir(), "long.gguf")
	require.NoError(b, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

// exactly returns a request with a prompt of random tokens and an answer of the given number of
// tokens.
func exactly(seed uint64, prompt, answer int) generation.Request {
	return generation.Request{Tokens: randomTokens(seed, prompt), MaxTokens: answer, IgnoreEOS: true, Timed: true}
}

// span is a period of processor time.
type span struct{ from, to time.Duration }

// streams runs n interactive streams until stop is closed. It returns the periods between two
// successive tokens of a stream.
func streams(b *testing.B, e *engine.Engine, m *meter, n int, stop <-chan struct{}) (gaps []span) {
	b.Helper()
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(b.Context())
	for i := range n {
		group.Go(func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				req := exactly(uint64(i), 2, 64)
				req.Interactive = true
				c, err := e.Generate(ctx, req)
				if err != nil {
					return err
				}
				mu.Lock()
				times := c.Choices[0].Times
				for j := range times[1:] {
					gaps = append(gaps, span{m.spentBy(times[j]), m.spentBy(times[j+1])})
				}
				mu.Unlock()
			}
		})
	}
	require.NoError(b, group.Wait())
	return gaps
}

// BenchmarkDecodeGaps measures the gaps between the tokens of 8 interactive streams, alone and next
// to batch prompts of 6,000 tokens, and the speed of these prompts. It measures processor time,
// which other programs hardly change: with one thread, processor time is the time on an idle
// machine.
func BenchmarkDecodeGaps(b *testing.B) {
	const prompt, prompts = 6000, 2
	for b.Loop() {
		e, m := openLoaded(b, engine.Options{Draft: engine.DraftOff, MaxSequences: 16})
		warm := make(chan struct{})
		close(warm)
		streams(b, e, m, 8, warm)

		quiet, done := make(chan struct{}), make(chan struct{})
		var idle, busy []span
		var group errgroup.Group
		group.Go(func() error { idle = streams(b, e, m, 8, quiet); return nil })
		enough := e.Snapshot().GeneratedTokens + 2000
		waitFor(b, func() bool { return e.Snapshot().GeneratedTokens >= enough })
		close(quiet)
		require.NoError(b, group.Wait())

		group.Go(func() error { busy = streams(b, e, m, 8, done); return nil })
		waitFor(b, func() bool { return e.Snapshot().Running == 8 })
		var during span
		during.from = processorTime(b)
		for i := range prompts {
			generate(b, e, exactly(uint64(100+i), prompt, 1))
		}
		during.to = processorTime(b)
		close(done)
		require.NoError(b, group.Wait())

		alone, beside := gapsDuring(idle, span{to: during.to}), gapsDuring(busy, during)
		for _, p := range []struct {
			name  string
			share float64
		}{{"p50", 0.5}, {"p95", 0.95}, {"max", 1}} {
			b.ReportMetric(quantile(alone, p.share), "ms-alone-"+p.name)
			b.ReportMetric(quantile(beside, p.share), "ms-beside-"+p.name)
		}
		b.ReportMetric(quantile(beside, 0.95)/quantile(alone, 0.5), "x-p95/alone-p50")
		b.ReportMetric(quantile(beside, 0.95)/quantile(alone, 0.95), "x-p95/alone-p95")
		b.ReportMetric(prompts*prompt/(during.to-during.from).Seconds(), "prompt-tokens/s")
	}
	b.ReportMetric(0, "ns/op")
}

// gapsDuring returns the lengths, in milliseconds, of the gaps that begin in a period.
func gapsDuring(gaps []span, p span) (ms []float64) {
	for _, g := range gaps {
		if g.from >= p.from && g.from < p.to {
			ms = append(ms, float64(g.to-g.from)/float64(time.Millisecond))
		}
	}
	return ms
}

func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[min(int(share*float64(len(values))), len(values)-1)]
}

// firstToken returns the processor time, in milliseconds, to the first token of an interactive
// request with a prompt of random tokens.
func firstToken(b *testing.B, e *engine.Engine, m *meter, seed uint64, prompt int) float64 {
	b.Helper()
	req := exactly(seed, prompt, 1)
	req.Interactive = true
	from := processorTime(b)
	c := generate(b, e, req)
	return float64(m.spentBy(c.Choices[0].Times[0])-from) / float64(time.Millisecond)
}

// BenchmarkFirstToken measures the time to the first token of interactive prompts of 50 tokens, on
// an idle engine and next to a batch prompt of 4,000 tokens, and the speed of such a batch prompt
// alone. It measures processor time, as BenchmarkDecodeGaps does.
func BenchmarkFirstToken(b *testing.B) {
	const short, long, repeats = 50, 4000, 3
	for b.Loop() {
		e, m := openLoaded(b, engine.Options{Draft: engine.DraftOff, MaxSequences: 16})
		_, err := e.SHA256(b.Context())
		require.NoError(b, err)
		generate(b, e, exactly(9, long, 1))
		start := processorTime(b)
		for i := range repeats {
			generate(b, e, exactly(uint64(10+i), long, 1))
		}
		b.ReportMetric(repeats*long/(processorTime(b)-start).Seconds(), "prompt-tokens/s")

		seed := uint64(1000)
		first := func() float64 {
			seed++
			return firstToken(b, e, m, seed, short)
		}
		var idle, behind []float64
		for range 30 {
			idle = append(idle, first())
		}
		for i := range repeats {
			var done atomic.Bool
			var group errgroup.Group
			before := e.Snapshot().Steps
			group.Go(func() error {
				_, err := e.Generate(b.Context(), exactly(uint64(i), long, 1))
				done.Store(true)
				return err
			})
			waitFor(b, func() bool { return e.Snapshot().Running == 1 || e.Snapshot().Steps > before })
			for !done.Load() {
				if ms := first(); !done.Load() {
					behind = append(behind, ms)
				}
			}
			require.NoError(b, group.Wait())
		}
		reportFirst(b, idle, "behind", behind)
		b.ReportMetric(float64(len(behind)), "behind")
	}
	b.ReportMetric(0, "ns/op")
}

// reportFirst reports times to the first token on an idle and on a busy engine.
func reportFirst(b *testing.B, idle []float64, name string, busy []float64) {
	for _, p := range []struct {
		name  string
		share float64
	}{{"p50", 0.5}, {"p95", 0.95}} {
		b.ReportMetric(quantile(idle, p.share), "ms-idle-"+p.name)
		b.ReportMetric(quantile(busy, p.share), "ms-"+name+"-"+p.name)
		b.ReportMetric(quantile(busy, p.share)/quantile(idle, p.share), "x-"+p.name)
	}
}

// BenchmarkInteractive measures the time to the first token of interactive requests with prompts of
// 50 tokens, on an idle engine and while batch requests of mixed lengths have all slots. It
// measures processor time, as BenchmarkDecodeGaps does.
func BenchmarkInteractive(b *testing.B) {
	const repeats = 100
	prompt := fromEnv(b, "INGOT_BENCH_PROMPT", 50)
	for b.Loop() {
		e, m := openLoaded(b, engine.Options{MaxSequences: 32})
		_, err := e.SHA256(b.Context())
		require.NoError(b, err)
		seed := uint64(5000)
		first := func() float64 {
			seed++
			return firstToken(b, e, m, seed, prompt)
		}
		var idle, busy []float64
		for range repeats {
			idle = append(idle, first())
		}

		ctx, stop := context.WithCancel(b.Context())
		var group errgroup.Group
		group.Go(func() error {
			for ctx.Err() == nil {
				mixedRows(ctx, b, e, 1000, 64)
			}
			return nil
		})
		waitFor(b, func() bool { s := e.Snapshot(); return s.Running == 32 && s.Waiting > 0 })
		random := rand.New(rand.NewPCG(1, 2))
		for range repeats {
			after := e.Snapshot().Steps + 1 + random.Uint64N(50)
			waitFor(b, func() bool { return e.Snapshot().Steps >= after })
			busy = append(busy, first())
		}
		stop()
		require.NoError(b, group.Wait())
		reportFirst(b, idle, "busy", busy)
		b.ReportMetric(float64(e.Snapshot().Preemptions)/repeats, "preemptions/request")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFile measures files of requests of mixed lengths, most of them short, with memory for
// all streams and with memory for a quarter of them.
func BenchmarkFile(b *testing.B) {
	rows := fromEnv(b, "INGOT_BENCH_ROWS", 1000)
	const context = 640
	for _, streams := range []int{8, 32, 64} {
		for _, share := range []int{1, 4} {
			b.Run(fmt.Sprintf("%d streams in the memory of %d", streams, streams/share), func(b *testing.B) {
				opts := engine.Options{Context: context, MaxSequences: streams, KV: gguf.TypeF16}
				opts.Memory = memoryHolding(b, opts, context*streams/share)
				for b.Loop() {
					e, be := openLoaded(b, opts)
					_, err := e.SHA256(b.Context())
					require.NoError(b, err)
					from, start, cpu := be.rows.Load(), time.Now(), processorTime(b)
					tokens := mixedRows(b.Context(), b, e, rows, streams) // the number is the same in every run
					s := e.Snapshot()
					b.ReportMetric(float64(tokens)/time.Since(start).Seconds(), "tokens/s")
					b.ReportMetric(1000*(processorTime(b)-cpu).Seconds()/float64(tokens), "cpu-ms/token")
					b.ReportMetric(float64(be.rows.Load()-from), "rows")
					b.ReportMetric(float64(s.Steps), "steps")
					b.ReportMetric(float64(s.Preemptions), "preemptions")
					b.ReportMetric(float64(s.DraftTokens), "drafts")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// memoryHolding returns the value of Options.Memory with which the cache holds the given number of
// tokens.
func memoryHolding(b *testing.B, opts engine.Options, tokens int) int64 {
	b.Helper()
	path, be := longModel(b), benchBackend(b)
	memory := func(i int) int64 { return int64(i+1) << 12 }
	return memory(sort.Search(1<<28, func(i int) bool {
		opts.Memory = memory(i)
		fit, err := engine.CheckFit(path, be, opts)
		return err == nil && fit.Tokens >= tokens
	}))
}

// processorTime returns the processor time that the process has used. It depends less on other
// programs than elapsed time does.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mixedRows answers requests of mixed lengths with the given number of streams until ctx is done.
// It returns the number of tokens of prompts and answers. Half of the answers have their maximum
// length. The others have a larger maximum and stop at random, after about 60 tokens.
func mixedRows(ctx context.Context, b *testing.B, e *engine.Engine, rows, streams int) int {
	b.Helper()
	random := rand.New(rand.NewPCG(7, 8))
	between := func(low, high float64) int { return int(low * math.Pow(high/low, random.Float64())) }
	vocab := e.Info().Vocab
	stops := make([]int32, vocab/60)
	for i := range stops {
		stops[i] = int32(i * 60)
	}
	var tokens atomic.Int64
	var group errgroup.Group
	group.SetLimit(streams)
	for i := range rows {
		req := exactly(uint64(i), between(8, 400), between(8, 200))
		if i%2 == 0 {
			req.MaxTokens, req.StopIDs, req.Sampling = 240, stops, generation.Sampling{Temperature: 50, Seed: uint64(i)}
		}
		group.Go(func() error {
			c, err := e.Generate(ctx, req)
			switch {
			case err == nil:
				tokens.Add(int64(len(req.Tokens) + len(c.Choices[0].Tokens)))
			case ctx.Err() == nil:
				return err
			}
			return nil
		})
	}
	require.NoError(b, group.Wait())
	return int(tokens.Load())
}
