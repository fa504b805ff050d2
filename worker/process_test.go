package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// The models of worker processes.
var (
	micro = filepath.Join("..", "engine", "model", "testdata", "micro-llama.gguf")
	tiny  = filepath.Join("..", "models", "tiny-llama.q4_0.gguf") // has a longer context than micro
)

// process is a worker process: the test binary started again with these settings. The zero value
// gives a worker without faults.
type process struct {
	URL         string // of Redis; set by start
	Model       string // micro if empty
	Concurrency int    // 8 if 0
	Leases      redisqueue.Leases
	Checkpoint  time.Duration // interval of checkpoints; the default if 0

	Poison     int32 // a prompt that begins with this id kills the process; 0 for none
	Neighbours int   // the poison kills when this many other rows run, which wait for it; 0 to kill at once
	FreezeAt   int   // the engine stops for good when a row has this many tokens; 0 for never
}

// TestMain lets the test binary be a worker process.
func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	if text := os.Getenv("INGOT_TEST_WORKER"); text != "" {
		var p process
		err := json.Unmarshal([]byte(text), &p)
		if err == nil {
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			err = p.serve(ctx)
			stop()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start starts the process. It is killed when the test ends.
func (p process) start(t testing.TB, r *redistest.Server) *exec.Cmd {
	t.Helper()
	p.URL = r.URL
	settings, err := json.Marshal(p)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "INGOT_TEST_WORKER="+string(settings))
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	return cmd
}

// serve is the main function of the process.
func (p process) serve(ctx context.Context) error {
	if p.Model == "" {
		p.Model = micro
	}
	if p.Concurrency == 0 {
		p.Concurrency = 8
	}
	queue, _, err := redisqueue.Dial(ctx, p.URL, p.Concurrency, func(string) {})
	if err != nil {
		return err
	}
	if p.Leases != (redisqueue.Leases{}) {
		queue.Leases = p.Leases
	}
	backend, err := cpu.New(1)
	if err != nil {
		return err
	}
	eng, err := engine.Open(p.Model, backend, engine.Options{})
	if err != nil {
		return err
	}
	w, err := New(eng, queue, Config{
		Concurrency: p.Concurrency, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	if p.Checkpoint > 0 {
		w.checkpoints.interval = p.Checkpoint
	}
	w.generate = p.faulty(w.generate)
	return w.Run(ctx)
}

type generate func(context.Context, generation.Request) (generation.Completion, error)

// faulty returns next with the faults that the settings ask for.
func (p process) faulty(next generate) generate {
	var running atomic.Int64
	return func(ctx context.Context, r generation.Request) (generation.Completion, error) {
		defer running.Add(-1)
		running.Add(1)
		if p.Poison != 0 && slices.Contains(r.Tokens, p.Poison) {
			for int(running.Load()) <= p.Neighbours {
				<-time.After(time.Millisecond)
			}
			os.Exit(137)
		}
		if p.Neighbours > 0 {
			<-ctx.Done() // until the poison ends the process
		}
		if report := r.Progress.To; report != nil && p.FreezeAt > 0 {
			r.Progress.To = func(now generation.Progress) {
				report(now)
				if now.Tokens() >= p.FreezeAt {
					select {}
				}
			}
		}
		return next(ctx, r)
	}
}
