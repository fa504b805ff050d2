package rows

import (
	"bufio"
	"crypto/sha1" // Redis scripts can compute SHA-1 as well
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// errorSum returns the start of the SHA-1 of an error line. Its 16 hex digits identify the line.
func errorSum(text []byte) uint64 {
	sum := sha1.Sum(text)
	return binary.BigEndian.Uint64(sum[:])
}

type errorLine struct {
	line int
	code *Failures // those with the same code
}

func (o *Output) findError(sum string) (key uint64, e errorLine, found bool) {
	key, err := strconv.ParseUint(sum, 16, 64)
	if err != nil {
		return 0, e, false
	}
	e, found = o.errors[key]
	return key, e, found
}

// HasError reports whether the output has the error line whose SHA-1 begins with sum, 16 hex
// digits.
func (o *Output) HasError(sum string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _, found := o.findError(sum)
	return found
}

// Retract removes the error lines with the given sums, as in HasError, because their rows were
// queued again. It returns how many of these lines the output had. It replaces the file atomically
// by a copy without the lines, so that the file has each row at most once at any time. Lines cannot
// be removed from a pipe or terminal; there, the row's next result follows the error line.
func (o *Output) Retract(sums []string) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := map[uint64]errorLine{}
	for _, sum := range sums {
		if key, e, found := o.findError(sum); found {
			old[key] = e
		}
	}
	if len(old) == 0 {
		return 0, nil
	}
	if o.regular {
		without := func(text []byte) bool { _, found := old[errorSum(text)]; return found }
		if err := o.rewrite(without); err != nil {
			return 0, fmt.Errorf("remove error lines of rows that were queued again: %w", err)
		}
	}
	for key, e := range old {
		delete(o.errors, key)
		e.code.Rows--
		if o.lines.remove(e.line) {
			o.kept--
		}
		o.results--
		o.failed--
	}
	return len(old), nil
}

// rewrite replaces the file by a copy without the lines for which without returns true. It does not
// change what the Output knows of its lines.
func (o *Output) rewrite(without func(text []byte) bool) error {
	if err := o.flush(); err != nil {
		return err
	}
	path, err := filepath.EvalSymlinks(o.path)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	size, err := o.copyWithout(temp, without)
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name()) //nolint:errcheck // the first error is reported
		return errors.Join(err, temp.Close())
	}
	old := o.file
	o.file, o.size = temp, size
	return errors.Join(closeFile(old), syncFolder(filepath.Dir(path)))
}

// syncFolder syncs a folder to the disk, so that a renamed file keeps its new name after a crash.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrPermission) { // a folder that this user can write but not read
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(syncFile(f), f.Close())
}

// syncFile syncs a file or folder to the disk, unless its file system cannot do that.
func syncFile(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// copyWithout copies the file to temp, except for the lines for which without returns true. It
// gives temp the file's mode, locks temp, and returns the size of the copy.
func (o *Output) copyWithout(temp *os.File, without func(text []byte) bool) (size int64, err error) {
	info, err := o.file.Stat()
	if err != nil {
		return 0, err
	}
	if err := temp.Chmod(info.Mode().Perm()); err != nil {
		return 0, err
	}
	unix.Flock(int(temp.Fd()), unix.LOCK_EX|unix.LOCK_NB) //nolint:errcheck // no other process knows temp; the file system may not support locks
	// A SectionReader does not change the file's offset, at which the next line is written.
	in := bufio.NewReaderSize(io.NewSectionReader(o.file, 0, info.Size()), fileBuffer)
	out := bufio.NewWriterSize(temp, fileBuffer)
	var text []byte
	for {
		text, _, err = ReadResult(in, text[:0])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		if without(text[:len(text)-1]) {
			continue
		}
		if _, err := out.Write(text); err != nil {
			return 0, err
		}
	}
	if err := out.Flush(); err != nil {
		return 0, err
	}
	if size, err = temp.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	return size, temp.Sync()
}
