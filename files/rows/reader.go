// Package rows reads files of rows and writes files of results. Writing results can be interrupted
// and continued.
package rows

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/openai"
)

// MaxLine is the maximum length of a line of input, in bytes. A longer line becomes an error row
// and is not held in memory.
const MaxLine = 16 << 20

// largeLine is the length, in bytes, from which the memory of a line is freed after its row was
// handled. The memory of shorter lines is reused for the next line.
const largeLine = 1 << 20

// Row is a checked line of an input file.
type Row struct {
	Line     int             // line number in the file, from 1; empty lines are counted but are not rows
	Sum      string          // 8 hex digits: the start of the SHA-256 of the line
	Record   string          // checksum of the record from which the line was made; empty if it was not made from one
	CustomID string          // the row's custom_id; for a row without one, DefaultID(Line) or a variant of it that no earlier row has
	Endpoint openai.Endpoint // the API endpoint that answers the row
	Body     json.RawMessage
	Continue bool          // the body has a text as "prompt", which the model continues, and the line does not ask for that by its "url"
	Model    string        // the model that the body names; empty for none
	Err      *openai.Error // why the row cannot be used, with Endpoint, Body and Model not set; nil for a usable row
}

// ErrFormat means that a file cannot be read as rows.
var ErrFormat = errors.New("file does not consist of rows")

// formatError is an error that matches ErrFormat in errors.Is.
type formatError struct{ error }

func (formatError) Is(target error) bool { return target == ErrFormat }
func (e formatError) Unwrap() error      { return e.error }

// Options are the settings of a Reader.
type Options struct {
	Format        Format   // format of the lines; empty means FormatAuto
	IgnoreUnknown bool     // accept rows with unknown fields and with names of other models
	Models        []string // allowed values of a row's "model"; nil for any

	// Remote means that the rows come from a client over HTTP. Errors then do not name the flags of
	// commands.
	Remote bool

	// RecordSum returns the checksum of the record from which a line was made. It is called once
	// per row, in the order of the lines. Nil if the lines are not made from records.
	RecordSum func(line int) string
}

// Reader reads the rows of a file one at a time. A row with the custom_id of an earlier row gets an
// Err. To find such rows, Reader needs about 20 bytes for each row with a custom_id.
type Reader struct {
	src     *bufio.Reader
	options Options
	parser  parser // nil before the first non-empty line
	line    int    // number of the last line that was read
	buf     []byte // the line that is being read; reused
	names   *Names
	forms   forms
}

// NewReader returns a Reader of the rows of r.
func NewReader(r io.Reader, o Options) *Reader {
	o.Format = cmp.Or(o.Format, FormatAuto)
	return &Reader{src: bufio.NewReaderSize(r, lineBuffer), options: o, names: NewNames()}
}

// Next returns the next row, which may have an Err, or io.EOF. The error is ErrFormat if the file
// cannot be read as rows, for example because it is one JSON array. All other errors are read
// errors.
func (r *Reader) Next() (Row, error) {
	text, whole, err := r.nextLine()
	if err != nil {
		return Row{}, err
	}
	row := Row{Line: r.line, Sum: Checksum(text)}
	if r.options.RecordSum != nil {
		row.Record = r.options.RecordSum(r.line)
	}
	if whole {
		r.parse(&row, text)
	} else {
		row.Err = rowError(openai.CodeTooLong, "the row is longer than %d MiB", MaxLine>>20)
	}
	if row.CustomID == "" {
		row.CustomID = r.names.MakeUp(r.line)
	}
	return row, nil
}

// Line is a non-empty line of a file.
type Line struct {
	Number int    // line number from 1, counting empty lines
	Text   []byte // without the line end; valid until the next call of NextLine
	Long   bool   // the line is longer than MaxLine, and Text is its beginning
}

// Sum returns the line's checksum, as in Row.
func (l Line) Sum() string { return Checksum(l.Text) }

// Checksum returns the checksum of a line without its line end, as in Row.
func Checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// NextLine returns the next non-empty line as text, or io.EOF. Its errors are those of Next.
func (r *Reader) NextLine() (Line, error) {
	text, whole, err := r.nextLine()
	if err != nil {
		return Line{}, err
	}
	return Line{Number: r.line, Text: text, Long: !whole}, nil
}

func rowError(code, format string, args ...any) *openai.Error {
	return &openai.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// nextLine reads the next non-empty line. The first such line determines the format. If whole is
// false, the line is longer than MaxLine and text is its beginning.
func (r *Reader) nextLine() (text []byte, whole bool, err error) {
	for {
		text, whole, err := r.readLine()
		if err != nil {
			return nil, false, err
		}
		trimmed := bytes.TrimSpace(text)
		if whole && len(trimmed) == 0 {
			continue
		}
		if r.parser == nil {
			if r.parser, err = detect(r.options.Format, trimmed); err != nil {
				return nil, false, formatError{err}
			}
		}
		return text, whole, nil
	}
}

// Rows iterates over the rows and errors of Next until io.EOF. If ctx is done first, the iteration
// ends with ctx's error. A blocked read, for example on a pipe, then continues in the background,
// so r must not be used any more.
func (r *Reader) Rows(ctx context.Context) iter.Seq2[Row, error] {
	type next struct {
		row   Row
		err   error
		large bool // the next row is read when this one was handled
	}
	return func(yield func(Row, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		read, handled := make(chan next), make(chan struct{})
		go func() {
			for {
				row, err := r.Next()
				large := len(row.Body) > largeLine
				select {
				case read <- next{row, err, large}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
				if !large {
					continue
				}
				select {
				case <-handled:
				case <-ctx.Done():
					return
				}
			}
		}()
		for {
			select {
			case n := <-read:
				if errors.Is(n.err, io.EOF) || !yield(n.row, n.err) || n.err != nil {
					return
				}
				if !n.large {
					continue
				}
				select {
				case handled <- struct{}{}:
				case <-ctx.Done():
				}
			case <-ctx.Done():
				yield(Row{}, ctx.Err())
				return
			}
		}
	}
}

// HasText reports whether a line of OpenAI's Batch API has a text as prompt, which a model
// continues.
func HasText(line []byte) bool {
	if !bytes.Contains(line, []byte(`"prompt"`)) {
		return false
	}
	l, err := openai.ParseInputLine(line)
	return err == nil && hasText(l)
}

func hasText(l openai.InputLine) bool {
	var body struct {
		Prompt json.RawMessage `json:"prompt"`
	}
	return l.Endpoint == openai.Completions && json.Unmarshal(l.Body, &body) == nil && bytes.HasPrefix(body.Prompt, []byte(`"`))
}

// continues returns Row.Continue of a line.
func continues(line []byte, l openai.InputLine) bool {
	if !hasText(l) {
		return false
	}
	var named struct{ Body, URL json.RawMessage }
	return json.Unmarshal(line, &named) == nil && (named.Body == nil || named.URL == nil)
}

// parse sets the fields of a row from its line. If the line has no custom_id, it leaves CustomID
// empty. The row does not share the memory of text.
func (r *Reader) parse(row *Row, text []byte) {
	if i := invalidUTF8(text); i >= 0 {
		row.Err = rowError(openai.CodeInvalidText, "the row is not UTF-8 at byte %d", i+1)
		l, _ := r.parser(bytes.ToValidUTF8(text, []byte("\uFFFD"))) // the row still has the id that can be read
		if l.CustomID != "" && !strings.Contains(l.CustomID, "\uFFFD") && r.names.Take(l.CustomID) {
			row.CustomID = l.CustomID
		}
		return
	}
	l, err := r.parser(text)
	if l.CustomID != "" {
		row.CustomID = l.CustomID
		if !r.names.Take(l.CustomID) {
			row.Err = rowError(openai.CodeDuplicateID, "custom_id %q was used by an earlier line", l.CustomID)
			return
		}
	}
	if err == nil && len(l.Body) > openai.MaxBody { // escapes make a text longer as JSON
		err = rowError(openai.CodeTooLong, "the row is longer than %d MiB as JSON", openai.MaxBody>>20)
	}
	var request *openai.Request
	if err == nil {
		request, err = openai.ParseRequest(l.Endpoint, l.Body)
	}
	if err == nil {
		err = request.CheckConstraint(r.forms.check)
	}
	if err == nil {
		err = r.check(l, request)
	}
	if err != nil {
		row.Err = openai.AsError(err)
		return
	}
	row.Endpoint, row.Body, row.Model = l.Endpoint, bytes.Clone(l.Body), request.Model()
	row.Continue = continues(text, l)
}

// check returns an *openai.Error if a line has fields that are unknown, or names another model.
func (r *Reader) check(l openai.InputLine, request *openai.Request) error {
	if r.options.IgnoreUnknown {
		return nil
	}
	if l.Misplaced != nil {
		return l.Misplaced
	}
	if err := request.CheckUnknown(); err != nil {
		return r.withHint(err, "--unknown-fields ignore accepts unknown fields")
	}
	if r.options.Models == nil {
		return nil
	}
	if err := request.CheckModel(r.options.Models...); err != nil {
		return r.withHint(err, "--unknown-fields ignore accepts other names")
	}
	return nil
}

func (r *Reader) withHint(err error, hint string) error {
	if r.options.Remote {
		return err
	}
	e := *openai.AsError(err)
	e.Message += " (" + hint + ")"
	return &e
}

// readLine reads a line without its line end, into memory that the next call reuses. If the line is
// longer than MaxLine, readLine returns its first MaxLine bytes, and whole is false.
func (r *Reader) readLine() (text []byte, whole bool, err error) {
	r.buf = r.buf[:0]
	size := 0
	for first := true; ; first = false {
		part, err := r.src.ReadSlice('\n')
		if first && r.line == 0 {
			if part, err = skipStart(part, err); err != nil && part == nil {
				return nil, false, formatError{err}
			}
		}
		size += len(part)
		r.buf = append(r.buf, part[:min(len(part), MaxLine-len(r.buf))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (!errors.Is(err, io.EOF) || size == 0) {
			if !errors.Is(err, io.EOF) {
				err = fmt.Errorf("read line %d: %w", r.line+1, err)
			}
			return nil, false, err
		}
		r.line++
		text = bytes.TrimRight(r.buf, "\r\n")
		if cap(r.buf) > largeLine {
			r.buf = nil
		}
		return text, size <= MaxLine, nil
	}
}

// invalidUTF8 returns the index of the first byte that is not valid UTF-8, or -1.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for i := 0; ; {
		c, n := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
}
