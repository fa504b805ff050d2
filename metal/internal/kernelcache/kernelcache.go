// Package kernelcache stores compiled kernels in files, for drivers whose compilers have no cache.
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
	"time"

	"golang.org/x/sys/unix"
)

// Folder makes the default folder of compiled kernels and returns its path. The folder is in the
// user's cache folder. If that is not writable, or other users can write to it, the folder is in
// the system's temporary folder.
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

// patience is how long File waits for another process that compiles the same source, which takes
// seconds, or a minute on a busy machine. Such a process may be stopped, or may wait for a file
// system.
const patience = 2 * time.Minute

// lock prevents several processes, such as the tests of several packages, from compiling the same
// source at the same time. The lock only saves time: the result would be correct without it, since
// a file gets its name only when it is complete. So lock gives up after patience.
func lock(path string, patience time.Duration) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for giveUp := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() {
				_ = os.Remove(path)
				_ = f.Close()
			}, nil
		case errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(giveUp):
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOTSUP):
			return func() { _ = f.Close() }, nil
		default:
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
	}
}

// comments matches comments with the spaces before them. It also matches literals, since a literal
// can contain text that looks like a comment.
var comments = regexp.MustCompile(`(?s)[ \t]*//[^\n]*|[ \t]*/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'`)

// withoutComments removes comments from C++. Every token stays on its line, since errors report
// line numbers.
func withoutComments(text string) string {
	return comments.ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasPrefix(s, `"`) || strings.HasPrefix(s, "'") {
			return s
		}
		return strings.Repeat("\n", strings.Count(s, "\n"))
	})
}

// Key returns the file name for the compiled code of a C++ text. It is a hash of the text without
// comments and of everything else on which the code depends: compiler lists the compiler's version,
// flags and other inputs.
func Key(text string, compiler ...any) string {
	sum := sha256.New()
	sum.Write(fmt.Appendln(nil, compiler...))
	sum.Write([]byte(withoutComments(text)))
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// File returns the path of a file in a folder. If the file does not exist, File calls write to make
// it under another path, and then renames it. File replaces a file that another user could have
// written. It returns an error if other users can write to the folder.
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
	unlock, err := lock(path+".lock", patience)
	if err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	defer unlock()
	if checkFile(path) == nil { // another process has made the file meanwhile
		return path, nil
	}
	out, err := os.CreateTemp(folder, "new-*"+filepath.Ext(name))
	if err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	defer os.Remove(out.Name()) //nolint:errcheck // fails after a success, since the file was renamed
	if err := out.Close(); err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	if err := write(out.Name()); err != nil {
		return "", err
	}
	// Set the mode again: a compiler may have replaced the file, with a mode that depends on the
	// user's umask.
	if err := os.Chmod(out.Name(), 0o600); err != nil {
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	if err := os.Rename(out.Name(), path); err != nil { // atomic, even if another process compiles the same source
		return "", fmt.Errorf("write compiled kernels: %w", err)
	}
	return path, nil
}
