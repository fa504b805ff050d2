// Package fleet describes a fleet to the people who operate it: how its batches advance, which
// workers serve which model names, and why rows wait.
package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

// serving is what is known about the workers of a fleet at one time.
type serving struct {
	queue   *redisqueue.Queue
	workers []queue.Worker
	paused  map[string]bool // known model aliases; true for those whose rows no worker takes
}

func readServing(ctx context.Context, q *redisqueue.Queue) (s serving, err error) {
	s.queue = q
	if s.paused, err = q.Aliases(ctx); err == nil {
		s.workers, err = q.Fleet(ctx)
	}
	return s, err
}

// serves reports whether a worker serves a model alias.
func (s *serving) serves(alias string) bool {
	return slices.ContainsFunc(s.workers, func(w queue.Worker) bool { return w.Live() && w.Serves(alias) && !s.queue.Silent(w) })
}

// loading returns the name of a worker that loads the model for a model alias; empty for none.
func (s *serving) loading(alias string) string {
	i := slices.IndexFunc(s.workers, func(w queue.Worker) bool { return w.Live() && w.Loading == alias && !s.queue.Silent(w) })
	if i < 0 {
		return ""
	}
	return textfmt.Printable(s.workers[i].Name)
}

// WarnOfWaiting calls warn for each of a batch's model names that no worker serves or that is
// paused. A name without workers may be misspelt. models has the number of rows of each name. If
// models is empty, all rows go to alias.
func WarnOfWaiting(ctx context.Context, q *redisqueue.Queue, alias string, models map[string]int, warn func(string)) error {
	s, err := readServing(ctx, q)
	if err != nil {
		return err
	}
	if len(models) == 0 {
		models = map[string]int{alias: 0}
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		rows, serves, loading := "the rows", s.serves(name), s.loading(name)
		if len(models) > 1 {
			rows = fmt.Sprintf("its rows (%d)", models[name])
		}
		switch {
		case !serves && loading != "":
			warn(fmt.Sprintf("worker %s loads the model for model name %q: %s wait for it", loading, name, rows))
		case !serves && name != alias:
			warn(fmt.Sprintf("no worker serves model name %q: %s wait for one. To send all rows to %q, cancel the batch and queue the file with --unknown-fields ignore",
				name, rows, alias))
		case !serves:
			warn(fmt.Sprintf("no worker serves model name %q: %s wait for one", name, rows))
		case s.paused[name]:
			warn(fmt.Sprintf("model name %q is paused: %s wait for \"ingot resume %s\"", name, rows, name))
		}
	}
	return nil
}

// ServesChats reports whether a worker that can answer a batch has a model with a chat template.
// alias and models are as in WarnOfWaiting.
func ServesChats(ctx context.Context, q *redisqueue.Queue, alias string, models map[string]int) bool {
	fleet, err := q.Fleet(ctx)
	return err == nil && slices.ContainsFunc(fleet, func(w queue.Worker) bool {
		serves := w.Serves(alias)
		for name := range models {
			serves = serves || w.Serves(name)
		}
		return w.Live() && w.Chat && serves
	})
}

// NoTemplates reports whether workers serve an alias, and no model of theirs has a chat template.
func NoTemplates(ctx context.Context, q *redisqueue.Queue, alias string) bool {
	fleet, err := q.Fleet(ctx)
	serving := slices.DeleteFunc(fleet, func(w queue.Worker) bool { return !w.Live() || !w.Serves(alias) })
	return err == nil && len(serving) > 0 && !slices.ContainsFunc(serving, func(w queue.Worker) bool { return w.Chat })
}

// Aliases returns all known model aliases or, if one is given, only this one. It is an error if the
// given one is not known.
func Aliases(ctx context.Context, q *redisqueue.Queue, given ...string) ([]string, error) {
	known, err := q.Aliases(ctx)
	if err != nil {
		return nil, err
	}
	all := slices.Sorted(maps.Keys(known))
	if len(given) == 0 {
		return all, nil
	}
	if _, ok := known[given[0]]; !ok {
		hint := "there are no model names yet"
		if len(all) > 0 {
			hint = "the known names are: " + strings.Join(all, ", ")
		}
		return nil, fmt.Errorf("no rows were queued for model name %q, and no worker serves it; %s", given[0], hint)
	}
	return given, nil
}
