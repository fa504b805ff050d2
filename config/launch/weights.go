package launch

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Weights has the values of the flags that select random weights in the shape of a known model,
// instead of a model.
type Weights struct {
	Shape string // empty for a model
	Quant string // type of the weights
	Write string // path of the file for the weights; empty for a temporary one
}

// Else returns the given shapes if neither a shape nor a model is selected.
func (w *Weights) Else(model string, shapes []Weights) []Weights {
	if w.Shape == "" && model == "" {
		return shapes
	}
	return []Weights{*w}
}

// parse returns the shape and the type of its weights. The shape is nil if the flags give none;
// there is a model then.
func (w *Weights) parse(model string) (s *shape.Shape, quant gguf.Type, err error) {
	if w.Shape == "" {
		if model == "" {
			return nil, 0, wrong("a model is missing: give --model FILE or --shape NAME")
		}
		return nil, 0, nil
	}
	if s, err = shape.Parse(w.Shape); err == nil {
		quant, err = shape.ParseQuant(w.Quant)
	}
	if err != nil {
		return nil, 0, &SettingsError{err}
	}
	return s, quant, nil
}

// File returns the path of a model's file. If the flags give a shape, it writes a file for the
// shape and returns the path of that file. The caller calls remove at the end: it deletes the
// shape's file unless Write names it.
func (w *Weights) File(model string) (path string, remove func() error, err error) {
	remove = func() error { return nil }
	if w.Shape == "" && w.Write != "" {
		return "", nil, wrong("--write requires --shape")
	}
	s, quant, err := w.parse(model)
	switch {
	case err != nil:
		return "", nil, err
	case s == nil:
		path, err = ModelFile(model)
		return path, remove, err
	}
	path, err = s.WriteFile(w.Write, quant)
	if w.Write == "" {
		remove = func() error { return os.Remove(path) }
	}
	return path, remove, err
}

// Layout opens a model's file. If the flags give a shape, it returns a file in memory instead,
// which has the sizes and types of the weights, but no values.
func (w *Weights) Layout(model string) (*gguf.File, error) {
	s, quant, err := w.parse(model)
	if err != nil {
		return nil, err
	}
	if s != nil {
		return s.Layout(quant)
	}
	return OpenModel(model)
}

// Name returns a name for the weights in the file of the given path, for the names of other files.
func (w *Weights) Name(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".gguf")
	if w.Shape != "" {
		name = w.Shape + "-" + strings.ToLower(w.Quant)
	}
	return strings.ReplaceAll(name, ":", "-")
}
