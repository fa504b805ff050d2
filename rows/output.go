package rows

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/openai"
)

// ErrOtherFile says that something was made of another input file, or by another batch, than the one at hand.
var ErrOtherFile = errors.New("not of this input")

// Output is a file of results being written, each row once. It knows the rows that it holds by their lines, with 4 bytes
// and a bit for each line up to the last one held. It is safe for concurrent use.
type Output struct {
	path  string
	batch string

	mu     sync.Mutex
	file   *os.File // nil for a writer
	w      *bufio.Writer
	has    []uint64 // a bit for each line
	sums   []uint32 // of the lines found on opening; 0 for others
	held   int
	failed int
	models map[string]int // answers found on opening, by their model_sha256
}

// OpenOutput opens or creates the file of a batch's results. What it holds is kept: a last line that was cut short when its
// writer died is removed, and any other content that is not a result of this batch is refused and left as it is. The file
// is locked until Close against a second writer. A path that is not a regular file, such as a terminal, is only written to.
func OpenOutput(path, batch string) (*Output, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open output: %w", err)
	}
	o := &Output{path: path, batch: batch, file: f, w: bufio.NewWriterSize(f, 64<<10), models: map[string]int{}}
	if err := o.load(); err != nil {
		o.closeFile() //nolint:errcheck // nothing was written
		return nil, err
	}
	return o, nil
}

// NewOutput writes a batch's results to w, which holds none yet and stays open.
func NewOutput(w io.Writer, batch string) *Output {
	return &Output{batch: batch, w: bufio.NewWriterSize(w, 64<<10)}
}

// Batch is the batch whose results are written.
func (o *Output) Batch() string { return o.batch }

func (o *Output) load() error {
	info, err := o.file.Stat()
	if err != nil {
		return fmt.Errorf("open output: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	err = unix.Flock(int(o.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%s is being written by another process", o.path)
	}
	// Other errors come from file systems without locks.
	end, err := o.scan()
	if err != nil {
		return err
	}
	if end == info.Size() {
		return nil
	}
	if err := o.file.Truncate(end); err != nil {
		return fmt.Errorf("remove the last line of %s, which was cut short: %w", o.path, err)
	}
	if _, err := o.file.Seek(end, io.SeekStart); err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	return nil
}

// scan reads the lines held and returns where the last whole one ends.
func (o *Output) scan() (end int64, err error) {
	r := bufio.NewReaderSize(o.file, 1<<20)
	for n := 1; ; n++ {
		text, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read %s: %w", o.path, err)
		}
		if err != nil {
			if !o.begun(text) {
				return 0, fmt.Errorf("%s:%d: %w: choose another output", o.path, n, errNotResult)
			}
			return end, nil
		}
		if err := o.hold(text); err != nil {
			return 0, fmt.Errorf("%s:%d: %w", o.path, n, err)
		}
		end += int64(len(text))
	}
}

var errNotResult = errors.New("line is not a result of ingot")

// begun tells whether text can be the beginning of a line of this output, cut short. A crash of the machine may leave zeros.
func (o *Output) begun(text []byte) bool {
	text = bytes.TrimRight(text, "\x00")
	start := `{"id":"` + openai.ResultPrefix(o.batch)
	n := min(len(text), len(start))
	return string(text[:n]) == start[:n]
}

// hold notes a line found in the file.
func (o *Output) hold(text []byte) error {
	var l struct {
		ID    string        `json:"id"`
		Error *openai.Error `json:"error"`
		Stats struct {
			ModelSHA256 string `json:"model_sha256"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("%w (%w): choose another output", errNotResult, err)
	}
	batch, line, sum, err := openai.ParseResultID(l.ID)
	if err != nil {
		return fmt.Errorf("%w: choose another output", err)
	}
	if batch != o.batch {
		return fmt.Errorf("%w: the line is of batch %s, not %s: choose another output", ErrOtherFile, batch, o.batch)
	}
	if o.mark(line) {
		return fmt.Errorf("line %d of the input stands in the output twice: remove one", line)
	}
	o.sums = grow(o.sums, line)
	o.sums[line] = sum
	if l.Error != nil {
		o.failed++
		return nil
	}
	o.models[l.Stats.ModelSHA256]++
	return nil
}

// OfOthers is the number of answers found on opening that are not of the model of this SHA-256.
func (o *Output) OfOthers(sha string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for model, answers := range o.models {
		if model != sha {
			n += answers
		}
	}
	return n
}

// mark notes that a line is held and tells whether it was before.
func (o *Output) mark(line int) (before bool) {
	o.has = grow(o.has, line/64)
	bit := uint64(1) << (line % 64)
	before = o.has[line/64]&bit != 0
	o.has[line/64] |= bit
	if !before {
		o.held++
	}
	return before
}

func grow[T any](s []T, i int) []T {
	if i < len(s) {
		return s
	}
	return append(s, make([]T, i+1-len(s))...)
}

// Has tells whether a line's result is held.
func (o *Output) Has(line int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return line/64 < len(o.has) && o.has[line/64]&(1<<(line%64)) != 0
}

// Check compares a row with the result of its line that was found on opening. They differ where the input is another file,
// or was edited.
func (o *Output) Check(row Row) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if row.Line >= len(o.sums) || !o.bit(row.Line) {
		return nil
	}
	raw, err := hex.DecodeString(row.Sum)
	if err == nil && len(raw) == 4 && binary.BigEndian.Uint32(raw) == o.sums[row.Line] {
		return nil
	}
	return fmt.Errorf("%w: line %d is not the one that %s answers: choose another output, or remove that answer to have the "+
		"line answered again", ErrOtherFile, row.Line, o.path)
}

func (o *Output) bit(line int) bool { return o.has[line/64]&(1<<(line%64)) != 0 }

// Write adds the result of a line, unless it is held.
func (o *Output) Write(line int, text []byte, failed bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mark(line) {
		return nil
	}
	if failed {
		o.failed++
	}
	if _, err := o.w.Write(text); err != nil {
		return writeError(err)
	}
	if err := o.w.WriteByte('\n'); err != nil {
		return writeError(err)
	}
	return nil
}

// Flush hands what was written to the system.
func (o *Output) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.w.Flush(); err != nil {
		return writeError(err)
	}
	return nil
}

// writeError says of an error what failed; those of files name the path.
func writeError(err error) error { return fmt.Errorf("write results: %w", err) }

// Counts are the lines held, and those of them that are errors.
func (o *Output) Counts() (held, failed int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held, o.failed
}

// Close flushes the output and, where it is a file, brings it to the disk and closes it.
func (o *Output) Close() error {
	err := o.Flush()
	if o.file == nil {
		return err
	}
	// Pipes and terminals cannot be synced; files can.
	if syncErr := o.file.Sync(); syncErr != nil && !errors.Is(syncErr, unix.EINVAL) && !errors.Is(syncErr, unix.ENOTSUP) {
		err = errors.Join(err, writeError(syncErr))
	}
	return errors.Join(err, o.closeFile())
}

// closeFile closes the file and gives up its lock.
func (o *Output) closeFile() error {
	// A process that is being started holds every open file until it runs its program, and with the file its lock. File
	// systems without locks give an error here, as on opening.
	unix.Flock(int(o.file.Fd()), unix.LOCK_UN) //nolint:errcheck // see above
	return o.file.Close()
}
