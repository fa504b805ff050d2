package table

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// Format is the name of a format of input files.
type Format string

// The formats.
const (
	Auto    Format = "auto" // chosen by the file's extension or its first bytes
	CSV     Format = "csv"
	TSV     Format = "tsv"
	Parquet Format = "parquet"
	Array   Format = "json"  // an array of objects, or objects one after another
	Lines   Format = "jsonl" // an object per line
	Text    Format = "text"  // a prompt per line
)

type fileFormat struct {
	name       Format
	help       string   // one line of help
	extensions []string // extensions of file names, in lower case
	// claims reports whether a file with an unknown extension has this format. start is the file's
	// first bytes after a byte order mark and white space. If claims is nil, no such file has the
	// format.
	claims func(start []byte) bool
	open   func(f *file) (Reader, error)
}

// formats lists all formats. If the extension of a file is unknown, Auto selects the first format
// that claims the file.
var formats []fileFormat

func init() { // a literal would be an initialisation cycle, since opening a file reads formats
	formats = []fileFormat{
		{CSV, "a table with a header, separated by commas", []string{".csv"}, nil, func(f *file) (Reader, error) { return newCSV(f, cmp.Or(f.comma, ',')) }},
		{TSV, "a table with a header, separated by tabs", []string{".tsv", ".tab"}, nil, func(f *file) (Reader, error) { return newCSV(f, '\t') }},
		{Parquet, "a table with types", []string{".parquet", ".pq"}, func(start []byte) bool { return bytes.HasPrefix(start, []byte("PAR1")) }, newParquet},
		{Array, "an array of objects, or objects of several lines, each like a line of jsonl",
			[]string{".json"}, beginsArray, newArray},
		{Lines, `a JSON object per line: a request (an OpenAI Batch line, or a body with "messages" or "prompt") or a record`,
			[]string{".jsonl", ".ndjson"}, beginsObject, newJSONLines},
		{Text, "a prompt per line", nil, func([]byte) bool { return true }, newText},
	}
}

// Formats iterates over all formats except Auto, with a line of help for each.
func Formats() iter.Seq2[Format, string] {
	return func(yield func(Format, string) bool) {
		for _, f := range formats {
			if !yield(f.name, f.help) {
				return
			}
		}
	}
}

// FormatNames lists the names of the formats for messages, as "auto, x or y".
func FormatNames() string {
	names := []string{string(Auto)}
	for _, f := range formats {
		names = append(names, string(f.name))
	}
	return english.WordSeries(names, "or")
}

// ParseFormat returns the format with the name s. An error lists the known names.
func ParseFormat(s string) (Format, error) {
	if f := Format(s); f == Auto || lookup(f) != nil {
		return f, nil
	}
	return "", fmt.Errorf("format %q is not known: use %s", s, FormatNames())
}

func lookup(f Format) *fileFormat {
	for i := range formats {
		if formats[i].name == f {
			return &formats[i]
		}
	}
	return nil
}

// formatOf returns the format that the extension of a path selects, or nil if no format has this
// extension.
func formatOf(path string) *fileFormat {
	path, _ = TrimCompression(path)
	extension := strings.ToLower(filepath.Ext(path))
	for i := range formats {
		if slices.Contains(formats[i].extensions, extension) {
			return &formats[i]
		}
	}
	return nil
}

// detect returns the format f or, if f is Auto, the one chosen by path and start, the beginning of
// the decompressed content.
func detect(f Format, path string, start []byte) *fileFormat {
	if found := lookup(f); found != nil {
		return found
	}
	start = bytes.TrimSpace(bytes.TrimPrefix(start, byteOrderMark))
	found := formatOf(path)
	json := found != nil && (found.name == Lines || found.name == Array)
	if json && beginsArray(start) {
		return lookup(Array) // an array is read as one whatever the extension is
	}
	if json && beginsObject(start) {
		return lookup(Lines)
	}
	for i := range formats {
		if found == nil && formats[i].claims != nil && formats[i].claims(start) {
			found = &formats[i]
		}
	}
	return found
}

// beginsArray reports whether JSON begins with an array of objects, or with an object of several
// lines.
func beginsArray(start []byte) bool {
	if rest, ok := bytes.CutPrefix(start, []byte("[")); ok {
		rest = bytes.TrimSpace(rest)
		return len(rest) == 0 || rest[0] == '{' || rest[0] == ']'
	}
	return bytes.HasPrefix(start, []byte("{\n")) || bytes.HasPrefix(start, []byte("{\r"))
}

func beginsObject(start []byte) bool { return bytes.HasPrefix(start, []byte("{")) }
