package fleet

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

// Worker is a worker's record with its state.
type Worker struct {
	State string `json:"state"` // live, paused, loading, silent or lost
	queue.Worker
}

// Workers lists the workers of a fleet, and those lost in the last hour.
type Workers struct {
	List   []Worker
	Paused []string // model aliases whose rows no worker takes, sorted
}

// ReadWorkers reads the workers and the paused model aliases.
func ReadWorkers(ctx context.Context, q *redisqueue.Queue) (Workers, error) {
	s, err := readServing(ctx, q)
	if err != nil {
		return Workers{}, err
	}
	all := Workers{List: make([]Worker, len(s.all))}
	for i, w := range s.all {
		all.List[i] = s.worker(w)
	}
	for name, paused := range s.paused {
		if paused {
			all.Paused = append(all.Paused, name)
		}
	}
	slices.Sort(all.Paused)
	return all, nil
}

func (s *serving) worker(w queue.Worker) Worker {
	switch {
	case !w.Live():
		w.Rows, w.TokensPerSecond = 0, 0 // its rows are in the queue again
		return Worker{"lost", w}
	case s.queue.Silent(w):
		return Worker{"silent", w}
	case w.Loading != "":
		return Worker{"loading", w}
	case slices.ContainsFunc(w.Aliases, func(alias string) bool { return s.paused[alias] }):
		return Worker{"paused", w}
	}
	return Worker{"live", w}
}

// Write prints a table of the workers, and the paused model aliases.
func (all *Workers) Write(w io.Writer) error {
	now := time.Now()
	t := textfmt.NewTable(w, "worker", "state", "model name", "model", "hash", "version", "device", "rows", "tokens/s", "started", "last beat")
	for _, s := range all.List {
		t.Line(s.Name, s.State, cmp.Or(strings.Join(s.Aliases, ","), s.Loading), s.Model, fmt.Sprintf("%.12s", s.ModelSHA256), s.Version, s.Device,
			fmt.Sprintf("%d/%d", s.Rows, s.Concurrency), fmt.Sprintf("%.1f", s.TokensPerSecond), s.Started.Local().Format(time.DateTime), ago(now.Sub(s.Beat)))
	}
	if err := t.Flush(); err != nil || len(all.Paused) == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "paused model names: %s\n", strings.Join(all.Paused, ", "))
	return err
}

func ago(d time.Duration) string { return max(0, d).Round(time.Second).String() + " ago" }
