// Package engine turns prompts into text: it tokenises requests, runs many of them at once through a model in batched
// steps, samples, and finishes each with its figures.
//
// Generate prepares a request on its caller's goroutine and hands it to the loop, the one goroutine that owns the model.
// Between two steps the loop lets go of what has ended and admits what waits. A step takes a row of each sequence that is
// generating and, up to its budget, rows of prompts.
package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/ingot-run/ingot/engine/cache"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// Engine answers requests with one model on one backend.
type Engine struct {
	file        *gguf.File
	draftFile   *gguf.File // nil but for DraftModel
	backend     compute.Backend
	config      model.Config
	opts        Options
	tokenizer   *tokenizer.Tokenizer
	stopIDs     []int32   // that end an answer by the file
	template    *template // nil where the file has none that can be used,
	templateErr error     // for this reason
	digest      *digest
	inbox       *inbox
	meter       meter
	loop        *loop
	closing     sync.Once
	closeErr    error
}

// Open loads the model of a GGUF file onto a backend and starts to take requests. The engine owns the backend from then
// on: Close closes it, as does Open when it fails.
func Open(path string, be compute.Backend, opts Options) (*Engine, error) {
	e, err := open(path, be, opts)
	if err != nil {
		return nil, fmt.Errorf("open the engine: %w", errors.Join(err, be.Close()))
	}
	e.digest = startDigest(path)
	go e.loop.run()
	return e, nil
}

func open(path string, be compute.Backend, opts Options) (*Engine, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	e := &Engine{file: f, backend: be, opts: opts, inbox: newInbox()}
	if err := e.load(); err != nil {
		return nil, errors.Join(err, e.closeFiles())
	}
	return e, nil
}

// load reads everything of the file.
func (e *Engine) load() error {
	var err error
	if e.config, err = model.ReadConfig(e.file); err != nil {
		return err
	}
	if e.tokenizer, err = tokenizer.New(e.file.Meta()); err != nil {
		return fmt.Errorf("load the tokenizer of %s: %w", e.file.Path(), err)
	}
	if n := e.tokenizer.Size(); n != e.config.Vocab {
		return fmt.Errorf("load %s: its tokenizer has %d tokens and its embedding %d", e.file.Path(), n, e.config.Vocab)
	}
	e.stopIDs = e.tokenizer.StopIDs()
	e.template, e.templateErr = readTemplate(e.file)
	plan := memoryPlan{context: e.config.Context}
	if err := plan.add(e.file, e.config, e.opts.KV); err != nil {
		return err
	}
	if e.opts.Draft == DraftModel {
		if err := e.openDraftFile(&plan); err != nil {
			return fmt.Errorf("draft with %s: %w", e.opts.DraftModel, err)
		}
	}
	limits, err := plan.limits(&e.opts, e.backend)
	if err != nil {
		return fmt.Errorf("make room for %s: %w", e.file.Path(), err)
	}
	m, err := model.Load(e.backend, e.file, limits)
	if err != nil {
		return err
	}
	e.meter.now.PagesTotal = limits.Pages
	e.loop = &loop{
		model: m,
		depth: e.backend.MaxInFlight(),
		top:   min(model.MaxTop, e.config.Vocab),
		opts:  &e.opts,
		pool:  cache.NewPool(limits.Pages, limits.PageSize),
		inbox: e.inbox,
		meter: &e.meter,
		done:  make(chan struct{}),
	}
	e.loop.batch.Trace = e.opts.Trace
	e.loop.spec, err = e.speculation(m, limits)
	return err
}

// Close fails all requests that are not done, waits for the loop to end, and frees the model and the backend. Closing
// twice does nothing more.
func (e *Engine) Close() error {
	e.closing.Do(func() {
		e.inbox.close()
		<-e.loop.done
		e.digest.stop()
		e.closeErr = errors.Join(e.backend.Close(), e.closeFiles())
	})
	return e.closeErr
}

func (e *Engine) closeFiles() error {
	if e.draftFile == nil {
		return e.file.Close()
	}
	return errors.Join(e.file.Close(), e.draftFile.Close())
}

// Info says what an engine runs.
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

// Info says what the engine runs.
func (e *Engine) Info() Info {
	name := e.config.Name
	if name == "" {
		name = filepath.Base(e.file.Path())
	}
	return Info{
		Model:        name,
		Architecture: e.config.Architecture,
		Path:         e.file.Path(),
		Bytes:        e.file.Size(),
		Backend:      e.backend.Name(),
		Device:       e.backend.Device(),
		Context:      e.opts.Context,
		Vocab:        e.config.Vocab,
		MaxSequences: e.opts.MaxSequences,
	}
}

// SHA256 is the model file's hash in hexadecimal. It is taken in the background from Open on; SHA256 waits for it.
func (e *Engine) SHA256(ctx context.Context) (string, error) {
	select {
	case <-e.digest.done:
		return e.digest.sum, e.digest.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Snapshot is the engine's state now.
func (e *Engine) Snapshot() Snapshot {
	s := e.meter.read()
	s.Waiting += e.inbox.sequences()
	return s
}

// Tokenizer is the model's tokenizer.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.tokenizer }
