package rows

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/openai"
)

// ErrOtherFile means that results or a batch were made from a different input file than the given
// one.
var ErrOtherFile = errors.New("made from a different input file")

// Sizes of buffers in bytes: for lines one after another, and for reading or copying a whole file.
const (
	lineBuffer = 64 << 10
	fileBuffer = 1 << 20
)

// Output is a file of results with at most one result per row. It identifies a row by its line
// number in the input. It needs about 5 bytes of memory per result if the results are of
// neighbouring lines. Output is safe for concurrent use.
type Output struct {
	path  string
	batch string

	mu      sync.Mutex
	file    *os.File // nil if the Output was made by NewOutput
	regular bool     // file is a regular file, which can be read
	made    bool     // OpenOutput has created the file
	size    int64    // size of the regular file after the last Flush, in bytes
	synced  bool     // the folder has the regular file's name on the disk
	w       *bufio.Writer
	lines   lineSet // input lines that have a result in the output
	results int
	pending counts // results that were written and not flushed
	kept    int    // number of results that the file had when it was opened, without those that Retract removed
	failed  int
	empty   int                  // number of written answers with a choice without text
	errors  map[uint64]errorLine // error lines of the output, by errorSum
	codes   map[string]*Failures // error lines, by code
	models  map[Model]int        // number of answers that the file had when it was opened

	shortest int // the smallest Result.TooShort above 0 of the results that the file had when it was opened; 0 if there is none
}

type counts struct{ results, failed int }

// Model says what answers in an output depend on. The fields other than SHA256 are empty in results
// of earlier versions.
type Model struct {
	SHA256     string // of the model file
	Arithmetic string // engine.Info.Arithmetic
	Sampling   string // engine.Info.Recommended as text; empty for temperature 1, and for answers of earlier versions
	Context    int    // engine.Info.Context, if it ended the answer; otherwise 0
}

// Differs reports whether answers of a run with model m can differ from answers of model o. What is
// not known of o, because an earlier version wrote the answers, does not differ.
func (m Model) Differs(o Model) bool {
	return o.SHA256 != "" && o.SHA256 != m.SHA256 || o.Arithmetic != "" && o.Arithmetic != m.Arithmetic || o.SHA256 != "" && o.Sampling != m.Sampling || o.Context != 0 && o.Context != m.Context
}

// OpenOutput opens or creates the file for a batch's results. Results in the file are kept. An
// incomplete last line is removed, since it comes from a process that died while it wrote. If the
// file has any other content, OpenOutput returns an error and leaves the file unchanged. Until
// Close, the file is locked against other writers, and every Flush returns ErrNotOurs if the file
// was removed, replaced or changed in size by another program. A path that is not a regular file,
// such as a pipe, is only written to.
func OpenOutput(path, batch string) (*Output, error) {
	mode := os.O_RDWR | os.O_CREATE
	info, err := os.Stat(path)
	made := errors.Is(err, fs.ErrNotExist)
	if err == nil && !info.Mode().IsRegular() {
		mode = os.O_WRONLY // a pipe that its writer could read as well would never break
	}
	f, err := os.OpenFile(path, mode|os.O_APPEND, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the folder %s for the output does not exist: make it, or give another path", filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	o := newOutput(nil, batch)
	o.path, o.file, o.made = path, f, made
	o.w.Reset(counter{o})
	if err := o.load(); err != nil {
		closeFile(f) //nolint:errcheck // nothing was written
		return nil, err
	}
	return o, nil
}

// counter writes to the output's file and counts the bytes.
type counter struct{ *Output }

func (c counter) Write(p []byte) (int, error) {
	n, err := c.file.Write(p)
	c.size += int64(n)
	return n, err
}

// NewOutput returns an Output that writes a batch's results to w. It begins without results. Close
// does not close w.
func NewOutput(w io.Writer, batch string) *Output { return newOutput(w, batch) }

func newOutput(w io.Writer, batch string) *Output {
	o := &Output{batch: batch, w: bufio.NewWriterSize(w, lineBuffer)}
	o.forget()
	return o
}

// Batch returns the id of the batch whose results are written.
func (o *Output) Batch() string { return o.batch }

// ErrNotOurs means that an output is not the file that was written: another program has removed,
// replaced, truncated or extended it.
var ErrNotOurs = errors.New("another program changed the output")

// check returns ErrNotOurs unless the path still leads to the open file, and the file has the size
// of what was written.
func (o *Output) check() error {
	if !o.regular {
		return nil
	}
	info, err := o.file.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(o.path)
	var what string
	switch {
	case errors.Is(err, os.ErrNotExist):
		what = "was removed"
	case err != nil:
		return err
	case !os.SameFile(info, now):
		what = "was replaced by another file"
	case info.Size() != o.size:
		what = fmt.Sprintf("has %d bytes, and %d were written to it", info.Size(), o.size)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s %s: run the same command again, and leave the file alone until it has ended", ErrNotOurs, o.path, what)
}

// Regular reports whether the output is a regular file, which can keep results.
func (o *Output) Regular() bool { return o.regular }

func (o *Output) errBusy() error {
	return fmt.Errorf("%s is in use by another process: wait until it has ended, or choose another output", o.path)
}

// HasTooShort reports whether the file had an error line, when it was opened, about a prompt that
// was too long for a context shorter than the given one.
func (o *Output) HasTooShort(context int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shortest > 0 && o.shortest < context
}

// ByOtherModels returns the number of answers that may differ from those of a run with a model, and
// the model of some of them, if possible another model file. What is not known of an answer,
// because an earlier version wrote it, does not make it differ. ByOtherModels counts only answers
// that the file had when it was opened.
func (o *Output) ByOtherModels(own Model) (n int, other Model) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for model, answers := range o.models {
		if own.Differs(model) {
			n += answers
			if n == answers || model.SHA256 != own.SHA256 {
				other = model
			}
		}
	}
	return n, other
}

// Answers returns the number of answers that the file had when it was opened.
func (o *Output) Answers() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, answers := range o.models {
		n += answers
	}
	return n
}

func (o *Output) add(line int) (before bool) {
	before = o.lines.add(line)
	if !before {
		o.results++
	}
	return before
}

// Has reports whether the output has a result for a line.
func (o *Output) Has(line int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines.has(line)
}

// Check compares a row with the result that the file had for the row's line when it was opened. The
// error is ErrOtherFile if the row differs, because the input is another file or was edited.
func (o *Output) Check(row Row) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if present, same := o.lines.compare(row.Line, row.Sum); !present || same {
		return nil
	}
	return otherFileError{fmt.Errorf("line %d of the input differs from the row that was answered in %s: choose another output, or delete this answer from %s",
		row.Line, o.path, o.path)}
}

// otherFileError is an error that matches ErrOtherFile in errors.Is.
type otherFileError struct{ error }

func (otherFileError) Is(target error) bool { return target == ErrOtherFile }

// CheckSum compares the checksum of a row with that of the result that the file had for the row's
// line when it was opened. present reports whether there was such a result. The error is
// ErrOtherFile if the checksums differ.
func (o *Output) CheckSum(line int, sum string) (present bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	present, same := o.lines.compare(line, sum)
	if present && !same {
		err = fmt.Errorf("%s was %w than batch %s: line %d differs; choose another output", o.path, ErrOtherFile, o.batch, line)
	}
	return present, err
}

// Write adds the result of a line. It does nothing if the output has a result for the line already.
func (o *Output) Write(line int, text []byte, failed bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.add(line) {
		return nil
	}
	o.pending.results++
	if failed {
		o.pending.failed++
		o.addError(line, text, errorOf(text))
	} else if isEmpty(text) {
		o.empty++
	}
	if _, err := o.w.Write(text); err != nil {
		return o.writeError(err)
	}
	return o.writeError(o.w.WriteByte('\n'))
}

func (o *Output) addError(line int, text []byte, e openai.Error) {
	o.failed++
	if o.codes[e.Code] == nil {
		o.codes[e.Code] = &Failures{Example: e.Message}
	}
	o.codes[e.Code].Rows++
	o.errors[errorSum(text)] = errorLine{line, o.codes[e.Code]}
}

// errorOf returns the error in an error line.
func errorOf(text []byte) openai.Error {
	var l struct {
		Error openai.Error `json:"error"`
	}
	if json.Unmarshal(text, &l) != nil {
		return openai.Error{}
	}
	return l.Error
}

// Flush writes buffered results to the file. The error is ErrNotOurs if the file at the path is not
// the one that was written.
func (o *Output) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.flush()
}

func (o *Output) flush() error {
	if err := o.w.Flush(); err != nil {
		return o.writeError(err)
	}
	o.pending = counts{}
	return o.writeError(o.check())
}

func (o *Output) writeError(err error) error {
	if err == nil {
		return nil
	}
	if o.regular && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return fmt.Errorf("write results: %w: make room, and run the same command again to continue", err)
	}
	return fmt.Errorf("write results: %w", err)
}

// Counts returns the number of results that the file has, and how many of them are error lines. A
// result counts after the next Flush, so that a kill of this process takes back no counted one.
func (o *Output) Counts() (results, failed int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.results - o.pending.results, o.failed - o.pending.failed
}

// Kept returns the number of results that the file had when it was opened, without those that
// Retract has removed.
func (o *Output) Kept() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept
}

// Sync flushes the output and, if it is a regular file, syncs it and its name in the folder to the
// disk. After Sync, the file at the path has all results.
func (o *Output) Sync() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.flush(); err != nil || !o.regular { // pipes and terminals cannot be synced
		return err
	}
	if err := syncFile(o.file); err != nil {
		return o.writeError(err)
	}
	if !o.synced {
		if err := o.syncFolder(); err != nil {
			return o.writeError(err)
		}
		o.synced = true
	}
	return o.writeError(o.check())
}

// syncFolder syncs the folder of the file that the path leads to.
func (o *Output) syncFolder() error {
	path, err := filepath.EvalSymlinks(o.path)
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// Close syncs the output to the disk. It also closes the file of OpenOutput.
func (o *Output) Close() error {
	err := o.Sync()
	if o.file == nil {
		return err
	}
	return errors.Join(err, closeFile(o.file))
}

// Abandon closes the output like Close after work that failed. A file that OpenOutput has created
// and that has no result is removed.
func (o *Output) Abandon() error {
	err := o.Sync()
	if o.file == nil {
		return err
	}
	if err == nil && o.made && o.regular && o.size == 0 {
		err = os.Remove(o.path)
	}
	return errors.Join(err, closeFile(o.file))
}

func closeFile(f *os.File) error {
	// Closing a file might not unlock the file: between fork and exec, a child process holds all
	// open files and their locks. On file systems without locks, unlocking fails, as locking did on
	// opening.
	unix.Flock(int(f.Fd()), unix.LOCK_UN) //nolint:errcheck // as the comment above says
	return f.Close()
}
