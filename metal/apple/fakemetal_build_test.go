package apple

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

//go:embed testdata/fakemetal
var fakeSources embed.FS

// errNoCompiler is returned by fakeLibrary on machines without a C compiler.
var errNoCompiler = errors.New("no C compiler is installed: install gcc or clang, or name one in CC")

// fakeLibrary compiles the fake library once per process and returns its bytes.
var fakeLibrary = sync.OnceValues(func() ([]byte, error) {
	compiler, err := findCompiler()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fakemetal-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder for temporary files
	if err := os.CopyFS(dir, fakeSources); err != nil {
		return nil, err
	}
	list, err := readSignatures()
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "testdata", "fakemetal")
	if err := os.WriteFile(filepath.Join(dir, "messages.h"), []byte(header(list)), 0o600); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.c"))
	if err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "fakemetal.so")
	args := append([]string{"-std=gnu11", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra", "-Werror", "-o", out}, files...)
	messages, err := exec.Command(compiler, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("compile the fake with %s: %w\n%s", compiler, err, messages)
	}
	return os.ReadFile(out)
})

func findCompiler() (string, error) {
	names := []string{"cc", "gcc", "clang"}
	if name := os.Getenv("CC"); name != "" {
		names = []string{strings.Fields(name)[0]}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoCompiler
}
