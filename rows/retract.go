package rows

import (
	"bufio"
	"crypto/sha1" // which Redis can compute too
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrorSum identifies the text of an error line: the first 16 hex digits of its SHA-1.
func ErrorSum(text []byte) string {
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:8])
}

// errorLine is an error line that is held.
type errorLine struct {
	sum  string // ErrorSum
	code string
}

// Retract removes error lines whose rows were queued again, given by their lines and the ErrorSums of their texts, and returns how
// many it held. An error line with another text is a newer one and stays. A file is replaced by one without the lines, so
// that at every moment it has each row at most once. What was written to anything else cannot be removed; the row's next result
// follows it.
func (o *Output) Retract(old map[int]string) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	retracted := map[int]bool{}
	for line, sum := range old {
		if e, ok := o.errors[line]; ok && e.sum == sum {
			retracted[line] = true
		}
	}
	if len(retracted) == 0 {
		return 0, nil
	}
	if o.regular {
		if err := o.rewrite(retracted); err != nil {
			return 0, fmt.Errorf("remove error lines of rows that were queued again: %w", err)
		}
	}
	for line := range retracted {
		o.codes[o.errors[line].code]--
		if o.codes[o.errors[line].code] == 0 {
			delete(o.codes, o.errors[line].code)
		}
		delete(o.errors, line)
		o.lines.remove(line)
		o.held--
		o.failed--
	}
	return len(retracted), nil
}

// rewrite replaces the file by a copy without the error lines of some rows.
func (o *Output) rewrite(without map[int]bool) error {
	if err := o.w.Flush(); err != nil {
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
	err = o.copyWithout(temp, without)
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name()) //nolint:errcheck // the first error is the one to report
		return errors.Join(err, temp.Close())
	}
	old := o.file
	o.file = temp
	o.w.Reset(temp)
	return errors.Join(closeFile(old), syncFolder(filepath.Dir(path)))
}

// syncFolder writes the names of a folder's files to the disk.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// copyWithout copies the file to another one, which gets its mode and a lock.
func (o *Output) copyWithout(temp *os.File, without map[int]bool) error {
	info, err := o.file.Stat()
	if err != nil {
		return err
	}
	if err := temp.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	unix.Flock(int(temp.Fd()), unix.LOCK_EX|unix.LOCK_NB) //nolint:errcheck // nobody else knows it; the file system may have no locks
	// The offset of the file stays where the next line is written.
	in := bufio.NewReaderSize(io.NewSectionReader(o.file, 0, info.Size()), 1<<20)
	out := bufio.NewWriterSize(temp, 1<<20)
	sums := make(map[string]bool, len(without))
	for line := range without {
		sums[o.errors[line].sum] = true
	}
	var text []byte
	for {
		text, _, err = readResult(in, text[:0])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if sums[ErrorSum(text[:len(text)-1])] {
			continue
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return temp.Sync()
}
