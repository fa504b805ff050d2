package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/engine/gguf"
)

// file returns the path of a model's file. If the flags give a shape, it writes a file for the shape and returns the path of that file. The
// caller calls remove at the end: it deletes the shape's file unless --write names it.
func (w *weightFlags) file(model string) (path string, remove func() error, err error) {
	keep := func() error { return nil }
	switch {
	case w.shape == "" && w.write != "":
		return "", nil, usagef("--write requires --shape")
	case w.shape == "" && model == "":
		return "", nil, usagef("a model is missing: give --model FILE or --shape NAME")
	case w.shape == "":
		path, err = modelFile(model)
		return path, keep, err
	}
	s, err := shape.Parse(w.shape)
	if err != nil {
		return "", nil, &usageError{err}
	}
	quant, err := parseQuant(w.quant)
	if err != nil {
		return "", nil, &usageError{err}
	}
	if w.write != "" {
		f, err := os.Create(w.write)
		if err != nil {
			return "", nil, fmt.Errorf("write the shape's file: %w", err)
		}
		return w.write, keep, writeShape(f, s, quant)
	}
	f, err := os.CreateTemp("", "ingot-shape-*.gguf")
	if err != nil {
		return "", nil, fmt.Errorf("write the shape's file: %w", err)
	}
	remove = func() error { return os.Remove(f.Name()) }
	if err := writeShape(f, s, quant); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return f.Name(), remove, nil
}

func writeShape(f *os.File, s *shape.Shape, quant gguf.Type) error {
	out := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(s.Write(out, quant), out.Flush(), f.Close()); err != nil {
		return fmt.Errorf("write the shape's file: %w", err)
	}
	return nil
}

func parseQuant(s string) (gguf.Type, error) {
	var names []string
	for _, t := range gguf.Types() {
		if strings.EqualFold(s, t.String()) {
			return t, nil
		}
		names = append(names, strings.ToLower(t.String()))
	}
	return 0, fmt.Errorf("--quant %q is not known: use %s", s, strings.Join(names, ", "))
}
