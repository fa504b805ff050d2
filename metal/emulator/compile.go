package emulator

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
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/metal"
)

var (
	//go:embed races.h
	racesHeader string
	//go:embed runtime.h
	runtimeHeader string
	//go:embed msl.h
	languageHeader string
)

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

// cacheFolder makes the folder of compiled kernels where none is given. Libraries are loaded from it, so that nobody else may
// be able to write there.
func cacheFolder() (string, error) {
	user, err := os.UserCacheDir()
	if err == nil {
		user = filepath.Join(user, "ingot", "kernels")
		if err = os.MkdirAll(user, 0o755); err == nil {
			err = unix.Access(user, unix.W_OK)
		}
	}
	if err == nil {
		return user, nil
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("ingot-kernels-%d", os.Getuid()))
	if mkdirErr := os.Mkdir(dir, 0o700); mkdirErr != nil && !errors.Is(mkdirErr, os.ErrExist) {
		return "", errors.Join(err, mkdirErr)
	}
	var s unix.Stat_t
	if statErr := unix.Lstat(dir, &s); statErr != nil {
		return "", errors.Join(err, fmt.Errorf("look at %s: %w", dir, statErr))
	}
	if int(s.Uid) != os.Getuid() || s.Mode&(unix.S_IFMT|0o077) != unix.S_IFDIR {
		return "", errors.Join(err, fmt.Errorf("%s is not a folder of this user's alone: remove it", dir))
	}
	return dir, nil
}

// lock keeps a source from being compiled by several processes at once, such as the tests of packages. Whole files appear under
// their names in any case, so that a lock that is gone too early costs time alone.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	for errors.Is(err, unix.EINTR) { // some file systems' waits end with a signal
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil && !errors.Is(err, unix.ENOLCK) && !errors.Is(err, unix.ENOTSUP) {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() {
		_ = os.Remove(path)
		_ = f.Close()
	}, nil
}

// comments matches comments with the spaces before them, and the literals that may look as if they held one.
var comments = regexp.MustCompile(`(?s)[ \t]*//[^\n]*|[ \t]*/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'`)

// withoutComments returns C++ without comments. Every token stays on its line, since faults report lines.
func withoutComments(text string) string {
	return comments.ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasPrefix(s, `"`) || strings.HasPrefix(s, "'") {
			return s
		}
		return strings.Repeat("\n", strings.Count(s, "\n"))
	})
}

// key names the library of a text in the cache: by the compiler and what it sees, whatever the comments.
func (c *compiler) key(text string, mode metal.Mode) string {
	sum := sha256.New()
	sum.Write(fmt.Appendln(nil, c.path, c.version, c.flags(mode), cpu.X86))
	sum.Write([]byte(withoutComments(text)))
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// compile returns the path of the shared library of a source, from the cache where it is there.
func (c *compiler) compile(src metal.Source, mode metal.Mode) (path string, err error) {
	body, err := translated(src.Text)
	if err != nil {
		return "", fmt.Errorf("compile kernels %s: %w", src.Name, err)
	}
	text := "#line 1 \"races.h\"\n" + racesHeader + "#line 1 \"runtime.h\"\n" + runtimeHeader + "#line 1 \"msl.h\"\n" + languageHeader + body
	path = filepath.Join(c.cache, c.key(text, mode)+".so")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(c.cache, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of compiled kernels: %w", err)
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil { // another process has compiled it
		return path, nil
	}
	out, err := os.CreateTemp(c.cache, "new-*.so")
	if err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	defer os.Remove(out.Name()) //nolint:errcheck // it is gone where all went well
	if err := out.Close(); err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	cmd := exec.Command(c.path, append(c.flags(mode), "-o", out.Name(), "-")...) //nolint:noctx // a compiler ends by itself
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
