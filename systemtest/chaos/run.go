package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

type run struct {
	dir         string
	options     options
	journal     *journal
	undisturbed output

	redis    *process
	workers  []*process
	commands commands
	proxies  []*proxy // one for each worker, then one for commands
}

func (r *run) input() string  { return filepath.Join(r.dir, "in.jsonl") }
func (r *run) socket() string { return filepath.Join(r.dir, "redis.sock") }

func (r *run) url() string { return r.proxies[len(r.proxies)-1].url() }

// run makes the whole run. It returns an error if the run cannot continue. Faults of the program
// under test go to the journal.
func (r *run) run(ctx context.Context) error {
	if err := writeInput(r.input(), r.options.seed, r.options.rows); err != nil {
		return err
	}
	if err := r.runUndisturbed(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.storm+r.options.calm)
	defer cancel()
	storm, calm := context.WithTimeout(ctx, r.options.storm)
	defer calm()
	group, ctx := errgroup.WithContext(ctx)
	defer func() { // end processes and proxies that are still running
		cancel()
		group.Wait() //nolint:errcheck // the group was cancelled
	}()
	if err := r.start(ctx, storm, group); err != nil {
		return err
	}
	events := schedule(r.options.seed, r.options.storm, r.options.stop)
	var disturbed sync.WaitGroup
	disturbed.Go(func() { r.disturb(ctx, storm, events) })
	batches, err := r.runBatches(ctx, storm)
	if err != nil {
		return err
	}
	disturbed.Wait()
	for _, w := range r.workers {
		w.retire(ctx)
	}
	for _, w := range r.workers {
		select {
		case <-w.done:
		case <-ctx.Done():
			return fmt.Errorf("wait for the workers to end: %s is still running, although it received SIGTERM", w.name)
		}
	}
	for _, batch := range batches { // checked when no worker can record a late result any more
		if err := r.checkBatch(ctx, batch); err != nil {
			r.journal.fault("%w", err)
		}
	}
	return r.summarise(batches)
}

const localBatch = "local"

func (r *run) runUndisturbed(ctx context.Context) error {
	out := filepath.Join(r.dir, "undisturbed.jsonl")
	start := time.Now()
	if _, err := r.ingot(ctx, "run", r.input(), "-o", out, "--model", r.options.model); err != nil {
		return err
	}
	var err error
	if r.undisturbed, err = readOutput(out, localBatch); err != nil {
		return err
	}
	c := r.undisturbed.counts
	r.journal.note("undisturbed: %d rows, %d of them failed, %d tokens in %v", c.Total, c.Failed, c.CompletionTokens, time.Since(start).Round(time.Second/10))
	return nil
}

func (r *run) ingot(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.options.ingot, args...)
	cmd.Dir, cmd.Env = r.dir, environment(r.dir)
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return nil, fmt.Errorf("ingot %s: %w", args[0], err)
	}
	return out, nil
}

func (r *run) start(ctx, storm context.Context, group *errgroup.Group) error {
	r.redis = r.newProcess(storm, "redis", r.options.redis, "--port", "0", "--unixsocket", r.socket(), "--dir", r.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction")
	group.Go(func() error { return r.redis.run(ctx) })
	for { // until Redis accepts connections
		c, err := new(net.Dialer).DialContext(ctx, "unix", r.socket())
		if err == nil {
			reset(c)
			break
		}
		if rest(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("start redis: %w", err)
		}
	}
	for i := range r.options.workers + 1 {
		p, err := newProxy(ctx, r.socket())
		if err != nil {
			return err
		}
		group.Go(func() error { return p.serve(ctx) })
		r.proxies = append(r.proxies, p)
		if i == r.options.workers {
			break
		}
		w := r.newProcess(storm, fmt.Sprintf("worker-%d", i+1), r.options.ingot, "worker", "--redis", p.url(),
			"--model", r.options.model, "--concurrency", "8", "--threads", "1", "--memory", "1GiB", "--log-format", "json")
		r.workers = append(r.workers, w)
		group.Go(func() error { return w.run(ctx) })
	}
	return nil
}

func (r *run) newProcess(storm context.Context, name string, command ...string) *process {
	return &process{name: name, command: command, dir: r.dir, journal: r.journal, storm: storm, done: make(chan struct{})}
}

// batchesAtOnce is the number of batches that are in the queue at the same time. While one batch
// waits for the rows of a dead worker, the workers have rows of the other batch.
const batchesAtOnce = 2

// runBatches keeps batchesAtOnce batches in the queue: whenever one has ended, it queues the next.
// After the storm it queues no more. It returns the ids of all batches. The error names the batches
// that did not end.
func (r *run) runBatches(ctx, storm context.Context) (batches []string, err error) {
	var mu sync.Mutex
	var running sync.WaitGroup
	for lane := range batchesAtOnce {
		running.Go(func() {
			for n := 1; n == 1 || storm.Err() == nil; n++ {
				batch := fmt.Sprintf("batch-%d-%d", lane+1, n)
				e := r.runBatch(ctx, storm, batch)
				mu.Lock()
				batches, err = append(batches, batch), errors.Join(err, e)
				mu.Unlock()
				if e != nil {
					return
				}
			}
		})
	}
	running.Wait()
	return batches, err
}

func (r *run) runBatch(ctx, storm context.Context, batch string) error {
	start := time.Now()
	if err := r.commands.run(ctx, r.newProcess(storm, batch+"-enqueue", r.options.ingot, "enqueue", r.input(), "--redis", r.url(), "--batch", batch)); err != nil {
		return fmt.Errorf("queue %s: %w", batch, err)
	}
	r.journal.note("%s: queued in %v", batch, time.Since(start).Round(time.Second/10))
	if err := r.commands.run(ctx, r.newProcess(storm, batch+"-results", r.options.ingot, "results", batch, "--redis", r.url(), "-o", r.results(batch), "--follow")); err != nil {
		return errors.Join(fmt.Errorf("collect %s: %w", batch, err), r.whatIsLeft(batch))
	}
	r.journal.note("%s: finished in %v", batch, time.Since(start).Round(time.Second/10))
	return nil
}

func (r *run) results(batch string) string { return filepath.Join(r.dir, batch+".jsonl") }

func (r *run) status(ctx context.Context, batch string) (c counts, err error) {
	text, err := r.ingot(ctx, "status", batch, "--redis", r.url(), "--json")
	if err != nil {
		return c, err
	}
	err = json.Unmarshal(text, &c)
	return c, err
}

// whatIsLeft returns an error with the status of a batch that did not end. Redis must still be
// running.
func (r *run) whatIsLeft(batch string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	c, err := r.status(ctx, batch)
	if err != nil {
		return err
	}
	return fmt.Errorf("the status of %s shows the counts %+v", batch, c)
}

// checkBatch compares the collected results of a batch with the undisturbed run. It then collects
// the results again into a second file and compares that, too.
func (r *run) checkBatch(ctx context.Context, batch string) error {
	status, err := r.status(ctx, batch)
	if err != nil {
		return fmt.Errorf("check %s: %w", batch, err)
	}
	once := filepath.Join(r.dir, batch+".again.jsonl")
	if _, err := r.ingot(ctx, "results", batch, "--redis", r.url(), "-o", once); err != nil {
		return fmt.Errorf("check %s: %w", batch, err)
	}
	for _, path := range []string{r.results(batch), once} {
		got, e := readOutput(path, batch)
		if e == nil {
			if e = check(r.undisturbed, got, status); e != nil {
				e = fmt.Errorf("compare %s with the undisturbed run: %w", filepath.Base(path), e)
			}
		}
		err = errors.Join(err, e)
	}
	return err
}
