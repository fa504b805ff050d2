// Package kernelcache keeps compiled kernels in files, for the drivers that compile them outside of a system's own cache.
package kernelcache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Folder makes the folder of compiled kernels where none is given: in the user's cache folder or, where that cannot be
// written to or others can write to it, in the system's temporary folder.
func Folder() (string, error) {
	user, err := os.UserCacheDir()
	if err == nil {
		user = filepath.Join(user, "ingot", "kernels")
		if err = os.MkdirAll(user, 0o700); err == nil {
			err = unix.Access(user, unix.W_OK)
		}
		if err == nil {
			err = checkFolder(user)
		}
	}
	if err == nil {
		return user, nil
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("ingot-kernels-%d", os.Getuid()))
	if mkdirErr := os.Mkdir(dir, 0o700); mkdirErr != nil && !errors.Is(mkdirErr, os.ErrExist) {
		return "", errors.Join(err, mkdirErr)
	}
	if unsafe := checkFolder(dir); unsafe != nil {
		return "", errors.Join(err, unsafe)
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

// Key names what compiles from C++: by all that the compiler is and is given, and by the text without its comments.
func Key(text string, compiler ...any) string {
	sum := sha256.New()
	sum.Write(fmt.Appendln(nil, compiler...))
	sum.Write([]byte(withoutComments(text)))
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// File returns the path of a file of a folder. Where it is not there, write makes it under another path, and it appears whole
// under its own. What is there and could have been written by somebody else is replaced. The error names the folder if others can
// write to it.
func File(folder, name string, write func(path string) error) (string, error) {
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of compiled kernels: %w", err)
	}
	if err := checkFolder(folder); err != nil {
		return "", fmt.Errorf("use the folder of compiled kernels: %w", err)
	}
	if checkFile(path) == nil {
		return path, nil
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	defer unlock()
	if checkFile(path) == nil { // another process has compiled it
		return path, nil
	}
	out, err := os.CreateTemp(folder, "new-*"+filepath.Ext(name))
	if err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	defer os.Remove(out.Name()) //nolint:errcheck // it is gone where all went well
	if err := out.Close(); err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	if err := write(out.Name()); err != nil {
		return "", err
	}
	// A compiler makes the file anew, with the mode that the user's umask gives.
	if err := os.Chmod(out.Name(), 0o600); err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	if err := os.Rename(out.Name(), path); err != nil { // whole or not at all, whoever else compiles it
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	return path, nil
}
