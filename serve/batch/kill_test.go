package batch_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
	"github.com/ingot-run/ingot/serve/batch"
	"github.com/ingot-run/ingot/worker"
)

// process is a server without HTTP: the test binary, started again. It runs the batches of a
// folder, and prints the number of finished rows of one batch whenever it changes. It ends when
// that batch has ended.
type process struct {
	Folder string
	Batch  string
	Redis  string // URL of Redis; empty to use an engine in the process
	Rows   int    // number of rows that the engine answers; 0 for all
}

const asProcess = "INGOT_TEST_BATCHES"

func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	if text := os.Getenv(asProcess); text != "" {
		var p process
		err := json.Unmarshal([]byte(text), &p)
		if err == nil {
			err = p.run(context.Background())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// run is the main function of the process.
func (p process) run(ctx context.Context) error {
	runner, end, err := p.runner(ctx)
	if err != nil {
		return err
	}
	defer end()
	s, err := batch.Open(p.Folder, batch.Options{Logger: quiet})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.Run(ctx, runner)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for last := -1; ; <-tick.C {
		b, err := s.Batch(p.Batch)
		if err != nil {
			return err
		}
		if done := b.RequestCounts.Completed + b.RequestCounts.Failed; done != last {
			last = done
			fmt.Println(done)
		}
		if b.Status.Ended() {
			return nil
		}
	}
}

func (p process) runner(ctx context.Context) (batch.Runner, func(), error) {
	if p.Redis != "" {
		queue, _, err := redisqueue.Dial(ctx, p.Redis, 1, nil)
		if err != nil {
			return nil, nil, err
		}
		return batch.NewFleet(queue, "test"), func() { queue.Close() }, nil
	}
	eng, err := openMicro()
	if err != nil {
		return nil, nil, err
	}
	g := gated{eng, make(chan struct{}, p.Rows)}
	for range p.Rows {
		g.free <- struct{}{}
	}
	if p.Rows == 0 {
		close(g.free)
	}
	alone := batch.NewAlone(map[string]worker.Engine{"micro": g}, batch.AloneOptions{Concurrency: 8, Logger: quiet})
	return alone, func() { eng.Close() }, nil
}

// killAt starts the process and kills it when the given number of rows are finished. For 0, the
// process runs until the batch has ended.
func (p process) killAt(t testing.TB, rows int) {
	t.Helper()
	settings, err := json.Marshal(p)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), asProcess+"="+string(settings))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	last := 0
	for in := bufio.NewScanner(stdout); in.Scan(); {
		n, err := strconv.Atoi(in.Text())
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, last, "finished rows")
		if last = n; rows > 0 && n >= rows {
			break
		}
	}
	if rows == 0 {
		require.NoError(t, cmd.Wait())
		return
	}
	require.GreaterOrEqual(t, last, rows)
	require.NoError(t, cmd.Process.Kill())
	require.ErrorContains(t, cmd.Wait(), "killed")
}

// kills returns the number of rows of the batch, and how many times the test kills the server.
func kills() (rows, times int) {
	if os.Getenv("INGOT_LONG") != "" {
		return 5000, 10
	}
	return 300, 3
}

// newBatch creates a batch in a folder that no server runs yet. Every tenth row fails.
func newBatch(t testing.TB, folder string, n int) string {
	t.Helper()
	s, err := batch.Open(folder, batch.Options{Logger: quiet})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var text string
	for i := range n {
		id := fmt.Sprintf("row-%d", i)
		if i%10 == 9 {
			text += bad(id)
		} else {
			text += row(id)
		}
	}
	return create(t, s, text).ID
}

// requireAnswered checks the files of the batch after the last server has ended.
func requireAnswered(t testing.TB, folder, id string, n int) {
	t.Helper()
	s, err := batch.Open(folder, batch.Options{Logger: quiet})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	b, err := s.Batch(id)
	require.NoError(t, err)
	require.Equal(t, batch.Completed, b.Status)
	output, failed := requireWhole(t, s, b, n)
	for i := range n {
		if i%10 == 9 {
			require.Contains(t, failed, fmt.Sprintf("row-%d", i))
		} else {
			require.Contains(t, output, fmt.Sprintf("row-%d", i))
		}
	}
	page, err := s.Files(batch.Query{Limit: 10}, batch.PurposeOutput)
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
}

func TestServerSurvivesKills(t *testing.T) {
	t.Parallel()
	n, times := kills()
	folder := t.TempDir()
	p := process{Folder: folder, Batch: newBatch(t, folder, n)}
	for i := range times {
		p.Rows = n * 9 / 10 / (times + 1) // rows that each server answers before it is killed
		p.killAt(t, (i+1)*p.Rows)
	}
	p.Rows = 0
	p.killAt(t, 0)
	requireAnswered(t, folder, p.Batch, n)
}

// startWorker starts a worker that answers one row for each value of free. The worker ends with the
// test.
func startWorker(t testing.TB, redis, name string, free chan struct{}) {
	t.Helper()
	eng, err := openMicro()
	require.NoError(t, err)
	queue, _, err := redisqueue.Dial(t.Context(), redis, 8, nil)
	require.NoError(t, err)
	w, err := worker.New(gated{eng, free}, queue, worker.Config{
		Alias: "micro", Name: name, Concurrency: 8, ShutdownTimeout: time.Second, Logger: quiet,
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context())) // the context of the test ends before its cleanup functions run
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, queue.Close())
		require.NoError(t, eng.Close())
	})
}

// The server in front of a fleet is killed while two workers continue.
func TestFrontSurvivesKills(t *testing.T) {
	t.Parallel()
	n, times := kills()
	r := redistest.Start(t)
	free := make(chan struct{}, n)
	for i := range 2 {
		startWorker(t, r.URL, fmt.Sprintf("worker-%d", i), free)
	}
	folder := t.TempDir()
	p := process{Folder: folder, Redis: r.URL, Batch: newBatch(t, folder, n)}
	for i := range times {
		rows := n * 9 / 10 / (times + 1)
		for range rows {
			free <- struct{}{}
		}
		p.killAt(t, (i+1)*rows)
	}
	close(free)
	p.killAt(t, 0)
	requireAnswered(t, folder, p.Batch, n)
	keys, err := r.Client.Keys(t.Context(), "*"+p.Batch+"*").Result()
	require.NoError(t, err)
	require.Empty(t, keys, "the queue has no keys of the batch")
}
