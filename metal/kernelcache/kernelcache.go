// Package kernelcache stores compiled kernels in files, for drivers whose compilers have no cache of their own.
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

// Folder makes the default folder of compiled kernels. The folder is in the user's cache folder or, if that folder cannot be
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

// lock prevents several processes, such as the tests of packages, from compiling a source at the same time. Without the lock, the
// result would still be correct, since only complete files appear under their names; a lost lock only costs time.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	for errors.Is(err, unix.EINTR) { // on some file systems, a signal interrupts the wait
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

// comments matches comments with the spaces before them. It also matches literals, since a literal can contain text
// that looks like a comment.
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

// Key returns the name of the code that a text in C++ compiles to. It is a hash of the text without comments and of compiler: the
// compiler's version, flags and other input.
func Key(text string, compiler ...any) string {
	sum := sha256.New()
	sum.Write(fmt.Appendln(nil, compiler...))
	sum.Write([]byte(withoutComments(text)))
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// File returns the path of a file in a folder. If the file does not exist, write makes it under another path, and File
// renames it when it is complete. A file that somebody else could have written is replaced. If others can write to the
// folder, the error names it.
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
	defer os.Remove(out.Name()) //nolint:errcheck // after a success, the file has been renamed
	if err := out.Close(); err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	if err := write(out.Name()); err != nil {
		return "", err
	}
	// A compiler replaces the file; the mode of the new file depends on the user's umask.
	if err := os.Chmod(out.Name(), 0o600); err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	if err := os.Rename(out.Name(), path); err != nil { // atomic, even if another process compiles the same source
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	return path, nil
}
