package emulator

import (
	"bytes"
	_ "embed" // the prelude
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"

	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/internal/kernelcache"
	"github.com/ingot-run/ingot/metal/internal/translate"
)

var (
	//go:embed races.h
	racesHeader string
	//go:embed runtime.h
	runtimeHeader string
	//go:embed library.h
	libraryHeader string
	//go:embed cuda.h
	cudaHeader string
)

// translations caches translated sources for the whole process, which may open many devices.
var translations sync.Map

func translated(text string) (string, error) {
	if have, ok := translations.Load(text); ok {
		return have.(string), nil
	}
	out, err := translate.C(text, entry)
	if err == nil {
		translations.Store(text, out)
	}
	return out, err
}

// keys caches names of compiled sources for the whole process, by everything on which they depend.
var keys sync.Map

type compilation struct {
	program
	text string
	mode metal.Mode
}

func (c *compiler) key(text string, mode metal.Mode) string {
	of := compilation{c.program, text, mode}
	if have, ok := keys.Load(of); ok {
		return have.(string)
	}
	key := kernelcache.Key(text, c.path, c.version, c.flags(text, mode), cpu.X86)
	keys.Store(of, key)
	return key
}

// complete returns the C++ code of a source, with the emulator's headers.
func complete(src metal.Source) (string, error) {
	system := "#line 1 \"races.h\"\n" + racesHeader + "#line 1 \"runtime.h\"\n" + runtimeHeader
	if src.CUDA {
		return "#define INGOT_EMULATOR_CUDA\n#undef INGOT_DEBUG\n" + system + "#line 1 \"cuda.h\"\n" + cudaHeader + fromCUDA(src.Text), nil
	}
	body, err := translated(src.Text)
	return system + "#line 1 \"msl.h\"\n" + translate.Header + "#line 1 \"library.h\"\n" + libraryHeader + body, err
}

// compile returns the path of the shared library of a source. It compiles the source only if the
// cache does not have the library.
func (c *compiler) compile(src metal.Source, mode metal.Mode) (path string, err error) {
	text, err := complete(src)
	if err != nil {
		return "", fmt.Errorf("compile kernels %s: %w", src.Name, err)
	}
	return kernelcache.File(c.cache, c.key(text, mode)+".so", func(path string) error {
		cmd := exec.Command(c.path, append(c.flags(text, mode), "-o", path, "-")...) //nolint:noctx // a compiler ends by itself
		cmd.Stdin = strings.NewReader(text)
		var messages bytes.Buffer
		cmd.Stdout, cmd.Stderr = &messages, &messages
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("compile kernels %s with %s: %w\n%s", src.Name, c.path, err, messages.String())
		}
		return nil
	})
}
