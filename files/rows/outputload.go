package rows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/openai"
)

// load locks a regular file and reads the results in it. It removes a last line that was cut short.
func (o *Output) load() error {
	info, err := o.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	o.regular = true
	err = unix.Flock(int(o.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return o.errBusy()
	}
	// After any other error, the file is used without a lock: its file system has none.
	if now, err := os.Stat(o.path); err != nil || !os.SameFile(info, now) {
		return o.errBusy() // Retract has just replaced the file
	}
	end, err := o.scan()
	if err != nil {
		return err
	}
	o.size = end
	if end == info.Size() {
		return nil
	}
	if err := o.file.Truncate(end); err != nil {
		return fmt.Errorf("remove an incomplete last line: %w", err)
	}
	return nil
}

// scan reads the results in the file. It returns the offset after the last complete line.
func (o *Output) scan() (end int64, err error) {
	r := bufio.NewReaderSize(o.file, fileBuffer)
	var text []byte
	for n := 1; ; n++ {
		var size int64
		text, size, err = ReadResult(r, text[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if err != nil {
			if !o.isCutShort(text) {
				return 0, fmt.Errorf("%s:%d: %w: choose another output", o.path, n, errNotResult)
			}
			return end, nil
		}
		if size > openai.MaxOutputLine {
			return 0, fmt.Errorf("%s:%d: %w, since it is longer than %d MiB: choose another output", o.path, n, errNotResult, openai.MaxOutputLine>>20)
		}
		if err := o.loadResult(text); err != nil {
			return 0, fmt.Errorf("%s:%d: %w", o.path, n, err)
		}
		end += size
	}
}

// ReadResult appends the next line, including its line end, to text. It returns text and the line's
// size in the file. If the line is longer than a result can be, only its beginning is appended.
func ReadResult(r *bufio.Reader, text []byte) (line []byte, size int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		text = append(text, part[:min(len(part), openai.MaxOutputLine-len(text))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, size, err
		}
	}
}

var errNotResult = errors.New("the line is not a result of ingot")

// isCutShort reports whether text can be an incomplete line of this output. After a crash of the
// machine, the missing part of the line can be zeros.
func (o *Output) isCutShort(text []byte) bool {
	text = bytes.TrimRight(text, "\x00")
	start := `{"id":"` + openai.ResultPrefix(o.batch)
	n := min(len(text), len(start))
	return string(text[:n]) == start[:n]
}

func (o *Output) loadResult(text []byte) error {
	var l storedLine
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("%w (%w): choose another output", errNotResult, err)
	}
	batch, line, sum, err := openai.ParseResultID(l.ID)
	if err != nil {
		return fmt.Errorf("%w: choose another output", errNotResult)
	}
	if batch != o.batch {
		return otherFileError{fmt.Errorf("the result is of batch %s, not %s: choose another output", batch, o.batch)}
	}
	if o.add(line) {
		return fmt.Errorf("the output has two results for line %d of the input: remove one of them", line)
	}
	o.lines.setSum(line, sum)
	o.kept++
	if l.Error == nil {
		o.models[l.model()]++
	} else {
		o.addError(line, bytes.TrimSuffix(text, []byte("\n")), *l.Error)
		if c := l.tooShort(); c > 0 && (o.shortest == 0 || c < o.shortest) {
			o.shortest = c
		}
	}
	return nil
}
