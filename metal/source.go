package metal

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// kernels holds the kernel sources: .metal files and the headers that they share. Its folder cuda
// has kernels in CUDA C++ for operations that NVIDIA's GPUs compute in a different way, such as
// products of weights with 12-bit activations.
//
//go:embed kernels
var kernels embed.FS

// Kernel returns the source of a file in the folder kernels, such as "norm.metal". It adds the
// instances of the file's templates that the geometry can choose, and replaces the constants that
// the kernels share with this package.
func Kernel(name string, g Geometry) (Source, error) {
	wide := slices.ContainsFunc(g, func(c Choice) bool { return c.Wide > 0 })
	return kernelFor(name, weightTypes, gguf.CacheTypes(), g.instances(name, weightTypes, gguf.CacheTypes()), wide)
}

// KernelVersion returns a hash of all kernels in Metal's language and of their default geometry. It
// changes with everything that can change their speed.
func KernelVersion() string {
	sum := sha256.New()
	for _, name := range Files() {
		src, err := Kernel(name, nil)
		if err != nil {
			panic(err) // not reached: the files are part of the program, and tests read them
		}
		sum.Write([]byte(src.Text))
	}
	sum.Write([]byte(defaultText))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// kernelFor is Kernel for a unit's types and instances. It compiles wide tiles only if asked to.
func kernelFor(name string, types, pages []gguf.Type, instances string, wide bool) (Source, error) {
	dir, err := fs.Sub(kernels, "kernels")
	if err != nil {
		return Source{}, fmt.Errorf("read kernels: %w", err)
	}
	src, err := ReadSource(dir, name)
	src.Text = eachType(types, pages) + replaceConstants(src.Text, portableConstants) + instances
	if wide && tileKernels[name] != nil {
		src.Text = "#define WIDE_TILES\n" + src.Text
	}
	return src, err
}

// ReadSource reads a kernel file. It replaces the first #include "name" of each header by the
// header's text and drops later ones. #line directives give the original file names and line
// numbers for the compiler's messages. Lines with #include <name> are not changed.
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

// included returns the name of the file that a line includes with quotes.
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
