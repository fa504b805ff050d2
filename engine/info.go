package engine

import (
	"context"
	"path/filepath"

	"github.com/ingot-run/ingot/engine/schedule"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

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
	Fit          Fit
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
		Fit:          e.fit,
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
