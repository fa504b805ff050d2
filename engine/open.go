// Package engine turns prompts into text with one model on one backend. It renders and tokenises requests on their callers'
// goroutines; package schedule runs many of them at once in batched steps.
package engine

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"github.com/ingot-run/ingot/engine/chat"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/schedule"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// Engine answers requests with one model on one backend.
type Engine struct {
	files     *files
	backend   compute.Backend
	opts      Options
	fit       Fit
	template  *chat.Template
	digest    *digest
	scheduler *schedule.Scheduler
	closing   sync.Once
	closeErr  error
}

// Open loads the model of a GGUF file onto a backend and starts to take requests. The engine owns the backend from then
// on: Close closes it, as does Open when it fails.
func Open(path string, be compute.Backend, opts Options) (*Engine, error) {
	e, err := open(path, be, opts)
	if err != nil {
		return nil, errors.Join(err, be.Close())
	}
	e.digest = startDigest(path)
	go e.scheduler.Run()
	return e, nil
}

func open(path string, be compute.Backend, opts Options) (*Engine, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	f, err := openFiles(path, &opts)
	if err != nil {
		return nil, err
	}
	e := &Engine{files: f, backend: be, opts: opts}
	if err := e.load(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return e, nil
}

// load loads the weights and makes the scheduler.
func (e *Engine) load() (err error) {
	e.template = chat.New(e.files.model.Meta(), e.files.tokenizer)
	if e.fit, err = e.files.fit(&e.opts, e.backend); err != nil {
		return err
	}
	limits := e.fit.limits(&e.opts)
	m, err := model.Load(e.backend, e.files.model, limits)
	if err != nil {
		return err
	}
	speculator, err := e.speculator(m, limits)
	if err != nil {
		return err
	}
	e.scheduler = schedule.New(schedule.Options{
		Model:        m,
		Limits:       limits,
		Tokenizer:    e.files.tokenizer,
		Speculator:   speculator,
		MaxInFlight:  e.backend.MaxInFlight(),
		MaxSequences: e.opts.MaxSequences,
		PrefillChunk: e.opts.PrefillChunk,
		NoSharing:    e.opts.NoSharing,
		Trace:        e.opts.Trace,
	})
	return nil
}

// Close fails all requests that are not done, waits for the running step, and frees the model and the backend. Closing twice
// does nothing more.
func (e *Engine) Close() error {
	e.closing.Do(func() {
		e.scheduler.Close()
		e.digest.stop()
		e.closeErr = errors.Join(e.backend.Close(), e.files.close())
	})
	return e.closeErr
}

// Info describes what an engine runs.
type Info struct {
	Model        string // the name that the file gives, or the file's own
	Architecture string // GGUF's
	Path         string
	Bytes        int64  // of the file
	Backend      string // such as "cpu"
	Device       string // in words
	Context      int    // positions of a sequence, prompt and answer together
	Vocab        int
	MaxSequences int
}

// Info describes what the engine runs.
func (e *Engine) Info() Info {
	file, config := e.files.model, &e.files.config
	name := config.Name
	if name == "" {
		name = filepath.Base(file.Path())
	}
	return Info{
		Model:        name,
		Architecture: config.Architecture,
		Path:         file.Path(),
		Bytes:        file.Size(),
		Backend:      e.backend.Name(),
		Device:       e.backend.Device(),
		Context:      e.fit.Context,
		Vocab:        config.Vocab,
		MaxSequences: e.opts.MaxSequences,
	}
}

// SHA256 is the model file's hash in hexadecimal. It is computed in the background from Open on; SHA256 waits for it.
func (e *Engine) SHA256(ctx context.Context) (string, error) {
	select {
	case <-e.digest.done:
		return e.digest.sum, e.digest.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Snapshot is an engine's state, and its counts since it was opened.
type Snapshot = schedule.Snapshot

// Snapshot is the engine's state now.
func (e *Engine) Snapshot() Snapshot { return e.scheduler.Snapshot() }

// Tokenizer is the model's tokenizer.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.files.tokenizer }
