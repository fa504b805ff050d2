// Package engine turns prompts into text with one model on one backend. It renders the chat
// template and tokenises the prompt of each request on the caller's goroutine. Package schedule
// runs many requests at once in batched steps.
package engine

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/internal/chat"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/internal/schedule"
	"github.com/ingot-run/ingot/engine/model"
)

// Engine answers requests with one model on one backend.
type Engine struct {
	files     *files
	backend   compute.Backend
	opts      Options
	fit       Fit
	sequences int // maximum number of sequences in a step
	template  *chat.Template
	forms     *constraints
	digest    *digest
	scheduler *schedule.Scheduler
	callForms callForms     // of requests with tools
	large     chan struct{} // has a value for each large prompt that is being tokenised
	closing   sync.Once
	closeErr  error
}

// Open loads the model of a GGUF file onto a backend and starts to accept requests. The engine owns
// the backend: Close closes it, and so does Open if it fails.
func Open(path string, be compute.Backend, opts Options) (*Engine, error) {
	e, err := open(path, be, opts)
	if err != nil {
		return nil, errors.Join(err, be.Close())
	}
	e.digest = startDigest(e.files.model.Paths())
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
	e := &Engine{files: f, backend: be, opts: opts, large: make(chan struct{}, maxLargeTexts)}
	if err := e.load(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return e, nil
}

func (e *Engine) load() (err error) {
	e.template = chat.New(e.files.model.Meta(), e.files.tokenizer)
	e.forms = newConstraints(e.files.tokenizer, e.files.config.Vocab, e.template.Tags())
	automatic := e.opts.MaxSequences == 0
	if e.fit, err = e.files.fit(&e.opts, e.backend); err != nil {
		return err
	}
	limits := e.fit.limits(&e.opts, &e.files.draftConfig)
	loaded := limits
	loaded.Placed = e.loading()
	m, err := model.Load(e.backend, e.files.model, loaded)
	if err != nil {
		return err
	}
	steps, err := cost.Measure(m, limits)
	if err != nil {
		return err
	}
	e.sequences = e.opts.MaxSequences
	if automatic {
		e.sequences = steps.Streams(e.opts.MaxSequences, automaticTokens)
	}
	speculator, err := e.speculator(m, limits, steps)
	if err != nil {
		return err
	}
	e.scheduler = schedule.New(schedule.Options{
		Model:        m,
		Limits:       limits,
		Tokenizer:    e.files.tokenizer,
		Speculator:   speculator,
		Steps:        steps,
		StepTime:     e.opts.StepTime,
		MaxInFlight:  e.backend.MaxInFlight(),
		MaxSequences: e.sequences,
		PrefillChunk: e.opts.PrefillChunk,
		MaxResult:    e.fit.Rows,
		NoSharing:    e.opts.NoSharing,
		Trace:        e.opts.Trace,
	})
	return nil
}

// loading returns a function that adds up loaded bytes for Options.Loading.
func (e *Engine) loading() func(bytes int) {
	done, total := int64(0), int64(0)
	for _, t := range e.files.model.Tensors() {
		total += int64(len(t.Data))
	}
	return func(bytes int) {
		if done = min(done+int64(bytes), total); e.opts.Loading != nil {
			e.opts.Loading(done, total)
		}
	}
}

// speculator sets up drafting according to the options. It returns nil if nothing is drafted.
func (e *Engine) speculator(m model.Model, limits model.Limits, steps *cost.Steps) (*draft.Speculator, error) {
	how, layers := e.opts.Draft, e.files.config.DraftLayers
	o := draft.Options{Model: m, NGram: how == DraftAuto || how == DraftNGram, Fixed: e.opts.DraftTokens, Limits: limits, Sequences: e.opts.MaxSequences, Steps: steps, MaxInFlight: e.backend.MaxInFlight()}
	switch {
	case how == DraftOff:
		return nil, nil
	case how == DraftModel && e.files.draftConfig.Assistant:
		var err error
		if o.MTP, err = model.LoadAssistant(e.backend, m, e.files.draft, limits); err != nil {
			return nil, err
		}
		o.Attends = true
	case how == DraftModel:
		var err error
		limits.RopeContext = cmp.Or(e.opts.Context, e.files.draftConfig.Context)
		if o.Small, err = model.Load(e.backend, e.files.draft, limits); err != nil {
			return nil, err
		}
	case how == DraftMTP && layers == 0:
		return nil, fmt.Errorf("draft by the MTP layer: %s has none; use --draft auto, ngram, model=FILE or off", e.files.model.Path())
	case how != DraftNGram && layers > 0:
		o.MTP = m.(model.Drafter)
	}
	return draft.New(o)
}

// Close fails all requests that are not done, waits for the running step, and frees the model and
// the backend. A second call does nothing.
func (e *Engine) Close() error {
	e.closing.Do(func() {
		e.scheduler.Close()
		e.digest.stop()
		e.closeErr = errors.Join(e.backend.Close(), e.files.close())
	})
	return e.closeErr
}
