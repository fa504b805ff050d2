// Command chaos runs batches through a real redis-server and several workers. During the run it
// kills, stops and disconnects these processes at random. At the end, it compares the results with
// those of an undisturbed run.
//
//	go run ./systemtest/chaos -ingot bin/ingot -model models/tiny-llama.q4_0.gguf
//
// It runs the built program, as an operator does. Connections to Redis go through proxies in this
// command. docs/operations.md describes the disturbances and the conditions that must hold at the
// end.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

type options struct {
	ingot, redis, model string
	seed                uint64
	rows, workers       int
	storm               time.Duration // time during which disturbances begin
	stop                time.Duration // how long a worker is stopped; the times of all other disturbances are scaled with it
	calm                time.Duration // maximum time from the last disturbance to the end of the last batch
	keep                bool
}

func main() {
	var o options
	flag.StringVar(&o.ingot, "ingot", "bin/ingot", "the program to run")
	flag.StringVar(&o.redis, "redis-server", "redis-server", "the Redis server to run")
	flag.StringVar(&o.model, "model", "models/tiny-llama.q4_0.gguf", "the model of the workers")
	flag.Uint64Var(&o.seed, "seed", 0, "draw rows and disturbances from this seed; 0 for a random one, which is printed")
	flag.IntVar(&o.rows, "rows", 2000, "rows of a batch")
	flag.IntVar(&o.workers, "workers", 4, "worker processes")
	flag.DurationVar(&o.storm, "for", 3*time.Minute, "disturb for this long; meanwhile, two batches are always in the queue")
	flag.DurationVar(&o.stop, "stop", 40*time.Second, "stop a worker for this long; other disturbances are scaled with it")
	flag.DurationVar(&o.calm, "limit", 5*time.Minute, "maximum time from the last disturbance to the end of the last batch")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with files and logs even if nothing failed")
	flag.Parse()
	o.seed = cmp.Or(o.seed, rand.Uint64())
	if flag.NArg() > 0 || o.rows < 1 || o.workers < 1 || o.storm <= 0 || o.stop <= 0 || o.calm <= 0 {
		fmt.Fprintln(os.Stderr, "chaos: -rows, -workers, -for, -stop and -limit must be above zero, and chaos takes no arguments; see -help")
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, err := os.MkdirTemp("", "chaos-")
	if err == nil {
		err = runIn(ctx, dir, o)
	}
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		fmt.Fprintf(os.Stderr, "chaos: seed %d; files and logs are in %s\n", o.seed, dir)
		os.Exit(1)
	}
	if o.keep {
		fmt.Println("files and logs are in", dir)
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
}

func runIn(ctx context.Context, dir string, o options) error {
	for _, path := range []*string{&o.ingot, &o.model} { // made absolute, since the processes run in dir
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	text, err := os.Create(filepath.Join(dir, "journal.txt"))
	if err != nil {
		return err
	}
	defer text.Close() //nolint:errcheck // the lines were written without a buffer
	j := newJournal(os.Stdout, text)
	j.note("seed %d: %d rows a batch, %d workers, disturbed for %v", o.seed, o.rows, o.workers, o.storm)
	if err := (&run{dir: dir, options: o, journal: j}).run(ctx); err != nil {
		j.fault("%v", err)
	}
	return j.faults()
}
