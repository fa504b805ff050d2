package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newWorkers() *cobra.Command {
	var out jsonFlag
	cmd := redisCommand(&cobra.Command{
		Use:   "workers --redis URL",
		Short: "List the workers, and those lost in the last hour",
		Args:  arguments(),
	}, func(cmd *cobra.Command, q *redisqueue.Queue, _ []string) error { return listWorkers(cmd, q, &out) })
	out.add(cmd.Flags())
	return cmd
}

func listWorkers(cmd *cobra.Command, q *redisqueue.Queue, out *jsonFlag) error {
	all, err := q.Fleet(cmd.Context())
	if err != nil {
		return err
	}
	paused, err := q.Aliases(cmd.Context())
	if err != nil {
		return err
	}
	list := make([]workerState, len(all))
	for i, w := range all {
		list[i] = newWorkerState(w, paused, q.Silent(w))
	}
	return out.write(cmd, list, func(w io.Writer) error { return writeWorkers(w, list, paused, time.Now()) })
}

type workerState struct {
	State string `json:"state"` // live, paused, loading, silent or lost
	queue.Worker
}

func newWorkerState(w queue.Worker, paused map[string]bool, silent bool) workerState {
	switch {
	case !w.Live():
		w.Rows, w.TokensPerSecond = 0, 0 // its rows are in the queue again
		return workerState{"lost", w}
	case silent:
		return workerState{"silent", w}
	case w.Loading != "":
		return workerState{"loading", w}
	case slices.ContainsFunc(w.Aliases, func(alias string) bool { return paused[alias] }):
		return workerState{"paused", w}
	}
	return workerState{"live", w}
}

func writeWorkers(w io.Writer, list []workerState, paused map[string]bool, now time.Time) error {
	t := textfmt.NewTable(w, "worker", "state", "model name", "model", "hash", "version", "device", "rows", "tokens/s", "started", "last beat")
	for _, s := range list {
		t.Line(s.Name, s.State, cmp.Or(strings.Join(s.Aliases, ","), s.Loading), s.Model, fmt.Sprintf("%.12s", s.ModelSHA256), s.Version, s.Device,
			fmt.Sprintf("%d/%d", s.Rows, s.Concurrency), fmt.Sprintf("%.1f", s.TokensPerSecond), s.Started.Local().Format(time.DateTime), ago(now.Sub(s.Beat)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var names []string
	for name, yes := range paused {
		if yes {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	_, err := fmt.Fprintf(w, "paused model names: %s\n", strings.Join(names, ", "))
	return err
}

func ago(d time.Duration) string { return max(0, d).Round(time.Second).String() + " ago" }
