package metal

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// kernels holds what Kernel reads: a .metal file a subject, and headers that they share.
//
//go:embed kernels
var kernels embed.FS

// Kernel returns the kernels of a file in folder kernels, such as "norm.metal", with the instances of its templates that a
// geometry may choose.
func Kernel(name string, g Geometry) (Source, error) {
	dir, err := fs.Sub(kernels, "kernels")
	if err != nil {
		return Source{}, fmt.Errorf("read kernels: %w", err)
	}
	src, err := ReadSource(dir, name)
	src.Text += g.instances(name)
	return src, err
}

// ReadSource reads a file of kernels and puts the headers that it includes by #include "name" in their place, each once.
// Lines keep their file and number by #line, so that a compiler's messages point to the file that was written. Lines of
// #include <name> are left to the compiler.
func ReadSource(dir fs.FS, name string) (Source, error) {
	r := reader{dir: dir, seen: map[string]bool{}}
	if err := r.file(name); err != nil {
		return Source{}, fmt.Errorf("read kernels %s: %w", name, err)
	}
	return Source{Name: name, Text: r.text.String()}, nil
}

type reader struct {
	dir  fs.FS
	seen map[string]bool
	text strings.Builder
}

func (r *reader) file(name string) error {
	if r.seen[name] {
		return nil
	}
	r.seen[name] = true
	data, err := fs.ReadFile(r.dir, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(&r.text, "#line 1 \"%s\"\n", name)
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		header, ok := included(line)
		if !ok {
			r.text.WriteString(line)
			continue
		}
		if err := r.file(path.Join(path.Dir(name), header)); err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
		fmt.Fprintf(&r.text, "#line %d \"%s\"\n", number+1, name)
	}
	r.text.WriteByte('\n')
	return nil
}

// included is the file that a line includes by its name in quotes.
func included(line string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "#include")
	if !ok {
		return "", false
	}
	rest, ok = strings.CutPrefix(strings.TrimSpace(rest), `"`)
	if !ok {
		return "", false
	}
	name, _, ok = strings.Cut(rest, `"`)
	return name, ok
}
