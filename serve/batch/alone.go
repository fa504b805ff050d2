package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/worker"
	"github.com/ingot-run/ingot/worker/local"
)

// Alone is a Runner that uses engines in this process. The batches of a model are answered one
// after another.
type Alone struct {
	engines map[string]*sharedEngine
	options AloneOptions
}

// AloneOptions are the settings of Alone.
type AloneOptions struct {
	Concurrency int    // maximum number of rows in an engine at once; 0 for as many as the engine allows
	Version     string // version of the program, for results
	Logger      *slog.Logger
}

// sharedEngine is an engine that batches use one after another.
type sharedEngine struct {
	worker.Engine
	*turns
}

// NewAlone returns an Alone with the given engines, by model name.
func NewAlone[E worker.Engine](engines map[string]E, o AloneOptions) *Alone {
	a := &Alone{engines: map[string]*sharedEngine{}, options: o}
	for name, e := range engines {
		a.engines[name] = &sharedEngine{e, newTurns(1)}
	}
	return a
}

// Models implements Runner.
func (a *Alone) Models(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(a.engines)), nil
}

// Run implements Runner.
func (a *Alone) Run(ctx, stopped context.Context, t Task) error {
	ctx, cancel := until(ctx, stopped)
	defer cancel()
	err := a.run(ctx, t)
	if stopped.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (a *Alone) run(ctx context.Context, t Task) error {
	e := a.engines[t.Model]
	if e == nil {
		return fmt.Errorf("model %[1]q is not loaded: start the server with --model %[1]s=FILE", t.Model)
	}
	if err := e.take(ctx, t.Batch); err != nil {
		return err
	}
	defer e.giveBack()
	if e.Info().Chat {
		t.warnOfContinued()
	}
	out, err := t.Results()
	if err != nil {
		return err
	}
	in, err := os.Open(t.Input)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	_, err = local.Run(ctx, e.Engine, in, out, local.Options{
		Format: rows.FormatJSONL, Alias: t.Model, Models: []string{t.Model}, Remote: true, Concurrency: a.options.Concurrency, Version: a.options.Version,
		Logger:   quiet(a.options.Logger),
		Progress: func(p local.Progress) { t.Report(Tokens{p.PromptTokens, p.CompletionTokens}) },
	})
	if errors.Is(err, local.ErrOtherModel) || errors.Is(err, rows.ErrOtherFile) {
		return fmt.Errorf("%w: %w", ErrHopeless, err)
	}
	return err
}

// quiet returns a logger of warnings and errors alone. What a worker logs as info, such as that it
// stops, would read in a server's log as if the server did.
func quiet(log *slog.Logger) *slog.Logger {
	if log == nil {
		log = slog.Default()
	}
	return slog.New(warnings{log.Handler()})
}

type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{h.Handler.WithAttrs(attrs)}
}

func (h warnings) WithGroup(name string) slog.Handler { return warnings{h.Handler.WithGroup(name)} }

// Forget implements Runner. It has nothing to delete.
func (a *Alone) Forget(context.Context, string) error { return nil }
