package host

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the prelude
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"

	"github.com/ingot-run/ingot/metal"
)

// ErrNoCompiler is returned by Open where the machine has no C++ compiler.
var ErrNoCompiler = errors.New("no C++ compiler is installed: install g++ (12 or later) or clang++, or name one in CXX")

var (
	//go:embed runtime.h
	runtimeHeader string
	//go:embed msl.h
	languageHeader string
)

// compiler is a C++ compiler with the folder of what it has compiled.
type compiler struct {
	path    string
	version string
	cache   string
}

// findCompiler looks for $CXX, or else for the usual names.
func findCompiler(cache string) (*compiler, error) {
	names := []string{"c++", "g++", "clang++"}
	if name := os.Getenv("CXX"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := exec.Command(path, "--version").Output() //nolint:noctx // it answers at once
		if err != nil {
			return nil, fmt.Errorf("ask %s for its version: %w", path, err)
		}
		return &compiler{path: path, version: string(version), cache: cache}, nil
	}
	return nil, ErrNoCompiler
}

// name is the first line of the compiler's version.
func (c *compiler) name() string {
	line, _, _ := strings.Cut(c.version, "\n")
	return line
}

// flags are those of a mode. A kernel that would not fit the stack of a fibre is refused. Nothing is fused that the kernels do not fuse themselves, but in fast arithmetic, which still knows infinities.
func flags(mode metal.Mode) []string {
	common := []string{"-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing", "-Wno-attributes", "-Werror=frame-larger-than=49152", "-x", "c++"}
	switch mode {
	case metal.Debug:
		return slices.Concat([]string{"-O1", "-DINGOT_DEBUG", "-ffp-contract=off"}, common)
	case metal.FastMath:
		return slices.Concat([]string{"-O2", "-ffast-math", "-fno-finite-math-only", "-ffp-contract=fast"}, native(), common)
	}
	return slices.Concat([]string{"-O3", "-ffp-contract=off"}, native(), common)
}

func native() []string {
	if runtime.GOARCH == "amd64" {
		return []string{"-march=native"}
	}
	return nil
}

// translations holds what was translated before, since a process may open many devices.
var translations sync.Map

func translated(text string) (string, error) {
	if have, ok := translations.Load(text); ok {
		return have.(string), nil
	}
	out, err := translate(text)
	if err == nil {
		translations.Store(text, out)
	}
	return out, err
}

// compile returns the path of the shared library of a source, from the cache where it is there.
func (c *compiler) compile(src metal.Source, mode metal.Mode) (path string, err error) {
	body, err := translated(src.Text)
	if err != nil {
		return "", fmt.Errorf("compile kernels %s: %w", src.Name, err)
	}
	text := "#line 1 \"runtime.h\"\n" + runtimeHeader + "#line 1 \"msl.h\"\n" + languageHeader + body
	sum := sha256.New()
	sum.Write(fmt.Appendln(nil, c.path, c.version, flags(mode), cpu.X86, len(text)))
	sum.Write([]byte(text))
	path = filepath.Join(c.cache, hex.EncodeToString(sum.Sum(nil)[:16])+".so")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(c.cache, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of compiled kernels: %w", err)
	}
	out, err := os.CreateTemp(c.cache, "new-*.so")
	if err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	defer os.Remove(out.Name()) //nolint:errcheck // it is gone where all went well
	if err := out.Close(); err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	cmd := exec.Command(c.path, append(flags(mode), "-o", out.Name(), "-")...) //nolint:noctx // a compiler ends by itself
	cmd.Stdin = strings.NewReader(text)
	var messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &messages, &messages
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("compile kernels %s with %s: %w\n%s", src.Name, c.path, err, messages.String())
	}
	if err := os.Rename(out.Name(), path); err != nil { // whole or not at all, whoever else compiles it
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	return path, nil
}
