package job

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// MaxLine is the longest line of an input file, in bytes. A longer one becomes an error row without being kept in memory.
const MaxLine = 16 << 20

// Format is how rows stand in a file.
type Format string

// The formats. FormatAuto goes by the first line that is not empty: where it begins with { the file is JSONL, else text.
const (
	FormatAuto  Format = "auto"
	FormatJSONL Format = "jsonl" // a JSON object a line: an OpenAI Batch line, or a bare body with "messages" or "prompt"
	FormatText  Format = "text"  // a prompt a line, sent as the message of a user
)

// FormatOf is the format that the name of a file tells, or FormatAuto. In a file named so, a first line that is no JSON is
// an error and not a reason to take the rest for prompts.
func FormatOf(path string) Format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".jsonl", ".ndjson":
		return FormatJSONL
	}
	return FormatAuto
}

// ParseFormat checks a format's name.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case FormatAuto, FormatJSONL, FormatText:
		return f, nil
	}
	return "", fmt.Errorf("format %q is unknown: use auto, jsonl or text", s)
}

// Row is a line of an input file, checked.
type Row struct {
	Line     int             // from 1; empty lines count but are no rows
	Sum      string          // 8 hex digits: the start of the SHA-256 of the line
	CustomID string          // the row's own, or line-<Line>
	Endpoint Endpoint        // what it asks for
	Body     json.RawMessage // the request
	Err      *RowError       // why it cannot be used; then Endpoint and Body are not set
}

// Reader reads the rows of a file one at a time. Two rows with one custom_id are found by a set of 64-bit hashes, which takes
// about 20 bytes a row that names one; the second is an error.
type Reader struct {
	src    *bufio.Reader
	format Format
	begun  bool // a line that is not empty was read
	line   int
	buf    []byte // of the line being read, reused
	ids    map[uint64]struct{}
}

// NewReader reads rows from r.
func NewReader(r io.Reader, f Format) *Reader {
	if f == "" {
		f = FormatAuto
	}
	return &Reader{src: bufio.NewReaderSize(r, 64<<10), format: f, ids: map[uint64]struct{}{}}
}

// Next returns the next row, usable or not, or io.EOF. Other errors are of reading, or of a file that holds no rows at all,
// such as a JSON array.
func (r *Reader) Next() (Row, error) {
	for {
		text, whole, err := r.readLine()
		if err != nil {
			return Row{}, err
		}
		if whole && len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if !r.begun {
			if r.format, err = r.format.check(text); err != nil {
				return Row{}, err
			}
			r.begun = true
		}
		sum := sha256.Sum256(text)
		row := Row{Line: r.line, Sum: hex.EncodeToString(sum[:4]), CustomID: DefaultID(r.line)}
		if !whole {
			row.Err = rowErrorf(CodeTooLong, "is longer than %d MiB", MaxLine>>20)
			return row, nil
		}
		r.parse(&row, text)
		return row, nil
	}
}

// Rows are the rows of Next with its errors, of which io.EOF is the end. They end with ctx, too, whose error is the last then:
// a read that waits, as for a pipe, is left behind, and r cannot be used any more.
func (r *Reader) Rows(ctx context.Context) iter.Seq2[Row, error] {
	type next struct {
		row Row
		err error
	}
	return func(yield func(Row, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		read := make(chan next)
		go func() {
			for {
				row, err := r.Next()
				select {
				case read <- next{row, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
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
			case <-ctx.Done():
				yield(Row{}, ctx.Err())
				return
			}
		}
	}
}

// CountRows is the number of rows of r, which it reads to its end.
func CountRows(r io.Reader) (int, error) {
	lines := NewReader(r, FormatAuto)
	for n := 0; ; {
		text, whole, err := lines.readLine()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		if !whole || len(bytes.TrimSpace(text)) > 0 {
			n++
		}
	}
}

// DefaultID is the custom_id of a row that names none.
func DefaultID(line int) string { return fmt.Sprintf("line-%d", line) }

// parse fills in a row from its line, of which it keeps nothing.
func (r *Reader) parse(row *Row, text []byte) {
	if i := invalidUTF8(text); i >= 0 {
		row.Err = rowErrorf(CodeInvalidText, "is not UTF-8 at byte %d", i+1)
		return
	}
	if r.format == FormatText {
		row.Endpoint, row.Body = Chat, userMessage(string(text))
		return
	}
	l, err := parseLine(text)
	if l.id != "" {
		row.CustomID = l.id
		id := sha256.Sum256([]byte(l.id))
		key := binary.LittleEndian.Uint64(id[:])
		if _, seen := r.ids[key]; seen {
			row.Err = rowErrorf(CodeDuplicateID, "custom_id %q was used by an earlier line", l.id)
			return
		}
		r.ids[key] = struct{}{}
	}
	if err == nil {
		_, err = ParseRequest(l.endpoint, l.body)
	}
	if err != nil {
		row.Err = asRowError(err)
		return
	}
	row.Endpoint, row.Body = l.endpoint, bytes.Clone(l.body)
}

// readLine reads a line without its end, into memory that the next call reuses. Of a line over MaxLine the first MaxLine
// bytes are kept, and it is not whole.
func (r *Reader) readLine() (text []byte, whole bool, err error) {
	r.buf = r.buf[:0]
	size := 0
	for first := true; ; first = false {
		part, err := r.src.ReadSlice('\n')
		if first && r.line == 0 {
			if part, err = skipStart(part, err); err != nil && part == nil {
				return nil, false, err
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
		whole = size <= MaxLine
		return bytes.TrimRight(r.buf, "\r\n"), whole, nil
	}
}

// skipStart drops a UTF-8 byte order mark from the start of a file, and refuses what is no text by its first bytes.
func skipStart(part []byte, err error) ([]byte, error) {
	for _, other := range []struct{ start, name, instead string }{
		{"\xFF\xFE", "UTF-16", "convert it, for example with iconv -f UTF-16 -t UTF-8"},
		{"\xFE\xFF", "UTF-16", "convert it, for example with iconv -f UTF-16 -t UTF-8"},
		{"\x1F\x8B", "compressed (gzip)", "give what gzip -dc makes of it, through a pipe if you like, with - for the file"},
		{"\x28\xB5\x2F\xFD", "compressed (zstd)", "give what zstd -dc makes of it, through a pipe if you like, with - for the file"},
		{"\xFD7zXZ\x00", "compressed (xz)", "give what xz -dc makes of it, through a pipe if you like, with - for the file"},
		{"PK\x03\x04", "a zip archive", "give the file in it"},
		{"PAR1\x15", "a Parquet file", "convert it to JSON, one object a line"},
	} {
		if bytes.HasPrefix(part, []byte(other.start)) {
			return nil, fmt.Errorf("input is %s: %s", other.name, other.instead)
		}
	}
	return bytes.TrimPrefix(part, []byte{0xEF, 0xBB, 0xBF}), err
}

// check tells the format of a file from what was said of it and from its first line that is not empty.
func (f Format) check(text []byte) (Format, error) {
	text = bytes.TrimSpace(text)
	switch {
	case f == FormatText:
		return f, nil
	case beginsArray(text):
		return "", errors.New("input looks like one JSON array: rows are JSON objects, one a line (jq -c '.[]' makes them)")
	case string(text) == "{":
		return "", errors.New("input looks like JSON objects of many lines: rows are JSON objects, one a line (jq -c . makes them)")
	case f == FormatJSONL || bytes.HasPrefix(text, []byte("{")):
		return FormatJSONL, nil
	}
	return FormatText, nil
}

// beginsArray tells whether a line is the beginning of an array of objects.
func beginsArray(text []byte) bool {
	rest, ok := bytes.CutPrefix(text, []byte("["))
	rest = bytes.TrimSpace(rest)
	return ok && (len(rest) == 0 || rest[0] == '{')
}

func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for i := 0; i < len(text); {
		c, n := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// userMessage is the body of a chat of one message.
func userMessage(text string) json.RawMessage {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body, err := marshal(struct {
		Messages []message `json:"messages"`
	}{[]message{{"user", text}}})
	if err != nil {
		panic(err) // strings always encode
	}
	return body
}

// marshal encodes JSON as it is read by people: without HTML's escapes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
