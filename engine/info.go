package engine

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/chat"
	"github.com/ingot-run/ingot/engine/internal/schedule"
	"github.com/ingot-run/ingot/engine/recommended"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// Info describes an engine's model, backend and limits.
type Info struct {
	Model        string // the name in the file's metadata or, if there is none, the name of the file
	Chat         bool   // the file has a chat template
	Architecture string // GGUF's general.architecture
	Path         string
	Bytes        int64  // size of the file
	Backend      string // such as "cpu"
	Device       string
	// Arithmetic names everything besides the model file that can change an answer that fits into
	// the context: the version of the program's arithmetic, the backend's Arithmetic, the type of
	// the KV cache and, for a model with two sets of RoPE factors, the set. An example is
	// "4/cpu/f16". Engines with the same model file and Arithmetic give the same answers, except
	// those that end at the end of a Context.
	Arithmetic   string
	Recommended  generation.Recommended // the defaults of requests that set no sampling option; zero without Options.Recommended
	Context      int                    // maximum number of positions of a sequence, prompt and answer together
	Vocab        int
	MaxSequences int // maximum number of sequences in a step
	StepTokens   int // maximum number of rows of a step
	Fit          Fit
}

// Info returns the description of the engine.
func (e *Engine) Info() Info {
	file, config := e.files.model, &e.files.config
	name := config.Name
	if name == "" {
		name = filepath.Base(file.Path())
	}
	_, chat := e.ChatTemplate()
	var defaults generation.Recommended
	if e.opts.Recommended {
		defaults = recommended.Of(file)
	}
	return Info{
		Model:        name,
		Chat:         chat,
		Architecture: config.Architecture,
		Path:         file.Path(),
		Bytes:        file.Size(),
		Backend:      e.backend.Name(),
		Device:       e.backend.Device(),
		Arithmetic:   e.arithmetic(),
		Recommended:  defaults,
		Context:      e.fit.Context,
		Vocab:        config.Vocab,
		MaxSequences: e.sequences,
		StepTokens:   e.opts.StepTokens,
		Fit:          e.fit,
	}
}

// FileName returns the name of the model's file without its folder and .gguf, and without the
// number of a part, such as -00001-of-00002.
func (i Info) FileName() string {
	name := strings.TrimSuffix(filepath.Base(i.Path), ".gguf")
	if part := strings.Index(name, "-00001-of-"); part > 0 {
		name = name[:part]
	}
	return name
}

// SHA256 returns the model file's hash in hexadecimal. Open starts the computation of the hash.
// SHA256 waits until the computation or ctx is done.
func (e *Engine) SHA256(ctx context.Context) (string, error) {
	select {
	case <-e.digest.done:
		return e.digest.sum, e.digest.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Snapshot has an engine's present state and its counts since Open.
type Snapshot = schedule.Snapshot

// Snapshot returns the engine's current state.
func (e *Engine) Snapshot() Snapshot { return e.scheduler.Snapshot() }

// Tokenizer returns the model's tokenizer.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.files.tokenizer }

// ChatTemplate returns the source of the model's chat template, if the file has one.
func (e *Engine) ChatTemplate() (string, bool) {
	source, err := e.files.model.Meta().String(chat.TemplateKey)
	return source, err == nil
}
