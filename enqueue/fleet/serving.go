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
	all     []queue.Worker  // also those that were lost in the last hour
	workers []queue.Worker  // those with a recent heartbeat that were not declared lost
	paused  map[string]bool // known model aliases; true for those whose rows no worker takes
}

func readServing(ctx context.Context, q *redisqueue.Queue) (s serving, err error) {
	s.queue = q
	if s.paused, err = q.Aliases(ctx); err != nil {
		return s, err
	}
	s.all, err = q.Fleet(ctx)
	for _, w := range s.all {
		if w.Live() && !q.Silent(w) {
			s.workers = append(s.workers, w)
		}
	}
	return s, err
}

// count returns the number of workers that serve a model alias.
func (s *serving) count(alias string) (n int) {
	for _, w := range s.workers {
		if w.Serves(alias) {
			n++
		}
	}
	return n
}

// loading returns the name of a worker that loads the model for a model alias; empty for none.
func (s *serving) loading(alias string) string {
	i := slices.IndexFunc(s.workers, func(w queue.Worker) bool { return w.Loading == alias })
	if i < 0 {
		return ""
	}
	return textfmt.Printable(s.workers[i].Name)
}

// reason says why some rows of a model alias wait. It is empty if a worker takes them.
func (s *serving) reason(alias, rows string) string {
	loading := s.loading(alias)
	switch {
	case s.paused[alias]:
		return fmt.Sprintf("model name %q is paused: %s wait for \"ingot resume %s\"", alias, rows, alias)
	case s.count(alias) > 0:
		return ""
	case loading != "":
		return fmt.Sprintf("worker %s loads the model for model name %q: %s wait for it", loading, alias, rows)
	}
	return fmt.Sprintf("no worker serves model name %q: %s wait for one", alias, rows)
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
		rows := "the rows"
		if len(models) > 1 {
			rows = fmt.Sprintf("its rows (%d)", models[name])
		}
		text := s.reason(name, rows)
		if text == "" {
			continue
		}
		if name != alias && !s.paused[name] && s.loading(name) == "" {
			text += fmt.Sprintf(". To send all rows to %q, cancel the batch and queue the file with --unknown-fields ignore", alias)
		}
		warn(text)
	}
	return nil
}

// ServesChats reports whether a worker that can answer a batch has a model with a chat template.
// alias and models are as in WarnOfWaiting.
func ServesChats(ctx context.Context, q *redisqueue.Queue, alias string, models map[string]int) bool {
	s, err := readServing(ctx, q)
	return err == nil && slices.ContainsFunc(s.workers, func(w queue.Worker) bool {
		serves := w.Serves(alias)
		for name := range models {
			serves = serves || w.Serves(name)
		}
		return w.Chat && serves
	})
}

// NoTemplates reports whether workers serve an alias, and no model of theirs has a chat template.
func NoTemplates(ctx context.Context, q *redisqueue.Queue, alias string) bool {
	s, err := readServing(ctx, q)
	chat := slices.ContainsFunc(s.workers, func(w queue.Worker) bool { return w.Serves(alias) && w.Chat })
	return err == nil && s.count(alias) > 0 && !chat
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
