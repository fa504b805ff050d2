package table

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxRecord is the maximum length of a record in its file, in bytes. Readers hold at most one
// record of this length in memory.
const maxRecord = 16 << 20

// peekSize is the number of bytes at the start of a file from which its format is recognised.
const peekSize = 4 << 10

// maxWindow is the maximum window of a zstd frame, in bytes, as "zstd --ultra --long=27" uses it. A
// reader needs this much memory.
const maxWindow = 128 << 20

// bufferSize is the size of a reader's or writer's buffer in bytes.
const bufferSize = 64 << 10

var byteOrderMark = []byte{0xEF, 0xBB, 0xBF}

type file struct {
	name   string // name of the file in messages
	plain  *os.File
	in     *bufio.Reader // the decompressed content
	closes []func() error

	comma    rune   // separates the columns of CSV; 0 for a comma
	encoding string // encoding from which the content was converted; empty for UTF-8
}

func openFile(path string, stdin io.Reader, encoding string) (*file, error) {
	f := &file{name: path}
	r := stdin
	if path == Stdin {
		f.name = stdinName
	} else {
		plain, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		f.plain, r = plain, plain
		f.closes = append(f.closes, plain.Close)
	}
	f.in = bufio.NewReaderSize(r, bufferSize)
	if err := f.decompress(encoding); err != nil {
		return nil, errors.Join(f.failed(err), f.Close())
	}
	return f, nil
}

// start returns the first bytes of the content: as many as are needed to recognise the format, at
// most peekSize.
func (f *file) start() ([]byte, error) {
	for n := 8; ; n *= 2 { // reads no more than needed, since a pipe may have no more bytes yet
		start, err := f.in.Peek(min(n, peekSize))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, f.failed(err)
		}
		known := len(bytes.TrimSpace(bytes.TrimPrefix(start, byteOrderMark))) > 1
		if known || err != nil || len(start) == peekSize {
			return start, nil //nolint:nilerr // the file is shorter than n
		}
	}
}

// decompress makes Read decompress the file if its first bytes are those of gzip or zstd. For
// binary formats that cannot be read, it returns the error of refuseBinary. Texts in another
// encoding than UTF-8 are converted.
func (f *file) decompress(encoding string) error {
	start, err := f.in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case bytes.HasPrefix(start, []byte("\x1F\x8B")):
		z, err := gzip.NewReader(f.in)
		if err != nil {
			return err
		}
		f.in = bufio.NewReaderSize(z, bufferSize)
	case bytes.HasPrefix(start, []byte("\x28\xB5\x2F\xFD")):
		z, err := zstd.NewReader(f.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return err
		}
		f.closes = append(f.closes, func() error { z.Close(); return nil })
		f.in = bufio.NewReaderSize(z, bufferSize)
	default:
		return f.decode(encoding, start)
	}
	f.plain = nil
	start, err = f.in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return f.decode(encoding, start)
}

func refuseBinary(start []byte) error {
	for _, other := range []struct{ start, name, instead string }{
		{"\xFF\xFE", "UTF-16", "convert it, for example with iconv -f UTF-16 -t UTF-8, or give --encoding utf-16le"},
		{"\xFE\xFF", "UTF-16", "convert it, for example with iconv -f UTF-16 -t UTF-8, or give --encoding utf-16be"},
		{"\x1F\x8B", "compressed twice", "decompress it"},
		{"\x28\xB5\x2F\xFD", "compressed twice", "decompress it"},
		{"\xFD7zX", "compressed (xz)", "decompress it with xz -d"},
		{"BZh", "compressed (bzip2)", "decompress it with bzip2 -d"},
		{"PK\x03\x04", "a zip archive or a spreadsheet", "extract the file in it, or export the sheet as CSV"},
		{"\xD0\xCF\x11\xE0", "an old spreadsheet or document", "export the sheet as CSV"},
		{"%PDF-", "a PDF", "extract its text first"},
		{"\x89PNG", "an image (PNG)", "give a file of prompts"},
		{"\xFF\xD8\xFF", "an image (JPEG)", "give a file of prompts"},
		{"GIF8", "an image (GIF)", "give a file of prompts"},
		{"\x7FELF", "a program", "give a file of prompts"},
		{"GGUF", "a model", "give it with --model, and a file of prompts as input"},
		{"SQLite format 3", "a database (SQLite)", "export a table as CSV"},
	} {
		if bytes.HasPrefix(start, []byte(other.start)) {
			return fmt.Errorf("the file is %s: %s", other.name, other.instead)
		}
	}
	return nil
}

// checkIsText returns an error if the start of the file cannot be text: it has zeros, and is not
// UTF-8 or has many of them.
func (f *file) checkIsText() error {
	if f.encoding != "" {
		return nil
	}
	if _, err := f.in.Peek(1); err != nil {
		return nil //nolint:nilerr // the reader of the format reports it
	}
	start, _ := f.in.Peek(f.in.Buffered()) // these bytes are in memory
	zeros := bytes.Count(start, []byte{0})
	if zeros == 0 {
		return nil
	}
	whole := start
	for n := 0; n < utf8.UTFMax-1 && !utf8.Valid(whole); n++ { // the last character may be cut off
		whole = whole[:len(whole)-1]
	}
	if utf8.Valid(whole) && 10*zeros < len(start) {
		return nil
	}
	return fmt.Errorf("read %s: the file is binary, since it has bytes that are zero: give a file of text (for UTF-16, give --encoding utf-16le or utf-16be)", f.name)
}

func (f *file) Read(p []byte) (int, error) { return f.in.Read(p) }

// Close closes the file. It does not close stdin.
func (f *file) Close() error {
	var err error
	for _, c := range f.closes {
		err = errors.Join(err, c())
	}
	f.closes = nil
	return err
}

func (f *file) fail(record int, err error) error {
	return f.failed(fmt.Errorf("record %d: %w", record, unlessIncomplete(err)))
}

// failed returns an error of reading the file as a whole.
func (f *file) failed(err error) error {
	return fmt.Errorf("read %s: %w", f.name, unlessIncomplete(err))
}

// unlessIncomplete returns err, unless it says that data ended too early.
func unlessIncomplete(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file is incomplete: it ends too early")
	}
	return err
}

func (f *file) skipMark() {
	if start, err := f.in.Peek(len(byteOrderMark)); err == nil && bytes.Equal(start, byteOrderMark) {
		f.in.Discard(len(byteOrderMark)) //nolint:errcheck // the bytes are in the buffer
	}
}
