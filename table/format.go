package table

import (
	"bytes"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
)

// Format names a format of input files.
type Format string

// The formats.
const (
	Auto    Format = "auto" // by the extension of the file's name and by its first bytes
	CSV     Format = "csv"
	TSV     Format = "tsv"
	Parquet Format = "parquet"
	Array   Format = "json"
	Lines   Format = "jsonl"
	Text    Format = "text"
)

// fileFormat describes how to recognise and read files of one format.
type fileFormat struct {
	name       Format
	help       string   // one line
	extensions []string // extensions of file names, in lower case
	// claims reports whether a file whose extension is not known has this format, by its first bytes after a byte order mark and white
	// space. nil claims none.
	claims func(start []byte) bool
	open   func(f *file) (Reader, error)
}

// formats are all formats. Auto selects the first that claims a file.
var formats []fileFormat

func init() { // not a literal, since opening a file reads it
	formats = []fileFormat{
		{CSV, "a table with a header, separated by commas", []string{".csv"}, nil, func(f *file) (Reader, error) { return newCSV(f, ',') }},
		{TSV, "a table with a header, separated by tabs", []string{".tsv", ".tab"}, nil, func(f *file) (Reader, error) { return newCSV(f, '\t') }},
		{Parquet, "a table with types", []string{".parquet", ".pq"}, func(start []byte) bool { return bytes.HasPrefix(start, []byte("PAR1")) }, newParquet},
		{Array, "an array of objects, or objects of several lines, each like a line of jsonl",
			[]string{".json"}, beginsArray, newArray},
		{Lines, `a JSON object per line: a request (an OpenAI Batch line, or a body with "messages" or "prompt") or a record`,
			[]string{".jsonl", ".ndjson"}, beginsObject, newJSONLines},
		{Text, "a prompt per line", nil, func([]byte) bool { return true }, newText},
	}
}

// Formats iterates over the formats except Auto, with a line of help for each.
func Formats() iter.Seq2[Format, string] {
	return func(yield func(Format, string) bool) {
		for _, f := range formats {
			if !yield(f.name, f.help) {
				return
			}
		}
	}
}

// FormatNames lists the names of the formats for messages: "auto, x or y".
func FormatNames() string {
	names := string(Auto)
	for i, f := range formats {
		separator := ", "
		if i == len(formats)-1 {
			separator = " or "
		}
		names += separator + string(f.name)
	}
	return names
}

// ParseFormat checks a format's name.
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

// formatOf returns the format of a file by the extension of its name, or nil if no format has the extension.
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

// detect returns the format of a file. start is the beginning of its content.
func detect(f Format, path string, start []byte) *fileFormat {
	if found := lookup(f); found != nil {
		return found
	}
	start = bytes.TrimSpace(bytes.TrimPrefix(start, byteOrderMark))
	found := formatOf(path)
	json := found != nil && (found.name == Lines || found.name == Array)
	if json && beginsArray(start) {
		return lookup(Array) // whatever the extension
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

// beginsArray reports whether JSON begins with an array of objects, or with an object of several lines.
func beginsArray(start []byte) bool {
	if rest, ok := bytes.CutPrefix(start, []byte("[")); ok {
		rest = bytes.TrimSpace(rest)
		return len(rest) == 0 || rest[0] == '{' || rest[0] == ']'
	}
	return bytes.HasPrefix(start, []byte("{\n")) || bytes.HasPrefix(start, []byte("{\r"))
}

func beginsObject(start []byte) bool { return bytes.HasPrefix(start, []byte("{")) }
