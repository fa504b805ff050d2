package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newWorkers() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "workers --redis URL",
		Short: "List the workers, and those lost in the last hour",
		Long: `Workers lists the workers of a Redis server: model, hash, version, rows that they have taken, speed, and their last heartbeat.
A silent worker sends no heartbeats, and no other worker has taken its rows. A lost worker was silent, and other workers
took its rows; it is listed for an hour. Paused model names are listed below the workers.`,
		Example: `  ingot workers --redis redis://localhost:6379/0
  ingot workers --redis redis://localhost:6379/0 --json | jq -r '.[] | select(.state == "lost") | .name'`,
		Args: arguments(),
		RunE: onRedis(func(cmd *cobra.Command, q *redisqueue.Queue, _ []string) error {
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
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return writeWorkers(cmd.OutOrStdout(), list, paused, time.Now())
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// workerState is a worker as "ingot workers" prints it.
type workerState struct {
	State string `json:"state"` // live, paused, silent or lost
	queue.Worker
}

func newWorkerState(w queue.Worker, paused map[string]bool, silent bool) workerState {
	switch {
	case !w.Live():
		return workerState{"lost", w}
	case silent:
		return workerState{"silent", w}
	case slices.ContainsFunc(w.Aliases, func(alias string) bool { return paused[alias] }):
		return workerState{"paused", w}
	}
	return workerState{"live", w}
}

func writeWorkers(w io.Writer, list []workerState, paused map[string]bool, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "worker\tstate\tmodel name\tmodel\thash\tversion\tdevice\trows\ttokens/s\tstarted\tlast beat") //nolint:errcheck // Flush reports it
	for _, s := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.12s\t%s\t%s\t%d/%d\t%.1f\t%s\t%s\n", //nolint:errcheck // Flush reports it
			printable(s.Name), s.State, printable(strings.Join(s.Aliases, ",")), printable(s.Model), printable(s.ModelSHA256), printable(s.Version),
			printable(s.Device), s.Rows, s.Concurrency, s.TokensPerSecond, s.Started.Local().Format(time.DateTime), ago(now.Sub(s.Beat)))
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

// ago formats the time since an event.
func ago(d time.Duration) string { return max(0, d).Round(time.Second).String() + " ago" }
