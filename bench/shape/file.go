package shape

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// ParseQuant returns the type of weights with the given name, such as q4_0.
func ParseQuant(name string) (gguf.Type, error) {
	var names []string
	for _, t := range gguf.FileTypes() {
		if strings.EqualFold(name, t.String()) {
			return t, nil
		}
		names = append(names, strings.ToLower(t.String()))
	}
	return 0, fmt.Errorf("--quant %q is not known: use %s", name, strings.Join(names, ", "))
}

// WriteFile is Write to a file. If path is empty, it makes a temporary file. It returns the path of
// the file.
func (s *Shape) WriteFile(path string, quant gguf.Type) (string, error) {
	f, err := create(path)
	if err != nil {
		return "", fmt.Errorf("write the shape's file: %w", err)
	}
	out := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(s.Write(out, quant), out.Flush(), f.Close()); err != nil {
		if path == "" {
			err = errors.Join(err, os.Remove(f.Name()))
		}
		return "", fmt.Errorf("write the shape's file: %w", err)
	}
	return f.Name(), nil
}

func create(path string) (*os.File, error) {
	if path == "" {
		return os.CreateTemp("", "ingot-shape-*.gguf")
	}
	return os.Create(path)
}
