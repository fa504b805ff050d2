package rows

import (
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/openai"
)

// Format names a format of input files.
type Format string

// The formats.
const (
	FormatAuto  Format = "auto" // chosen by the first line that is not empty
	FormatJSONL Format = "jsonl"
	FormatText  Format = "text"
)

// format describes how to recognise and read files of one format.
type format struct {
	name       Format
	help       string   // one line
	extensions []string // extensions of file names, in lower case
	// claims reports whether a file with the given first line has this format. The line has no white space around it. If claims is
	// nil, the format accepts all files.
	claims func(first []byte) bool
	// check returns an error if the first line shows that the file has no rows in this format. If check is nil, every
	// first line is accepted.
	check func(first []byte) error
	// parse reads a row. Its errors are *openai.Error. The result may share memory with the line.
	parse func(line []byte) (openai.InputLine, error)
}

// formats are all formats. FormatAuto selects the first format that claims a file.
var formats = []format{
	{
		name:       FormatJSONL,
		help:       `a JSON object per line: an OpenAI Batch line, or a request body with "messages" or "prompt"`,
		extensions: []string{".jsonl", ".ndjson"},
		claims:     beginsJSON,
		check:      checkJSONL,
		parse:      openai.ParseInputLine,
	},
	{
		name:  FormatText,
		help:  "a prompt per line, sent as a user's message",
		parse: parseText,
	},
}

// FormatOf returns the format of a file by the extension of its name. It returns FormatAuto if no format has the extension.
func FormatOf(path string) Format {
	extension := strings.ToLower(filepath.Ext(path))
	for _, f := range formats {
		if slices.Contains(f.extensions, extension) {
			return f.name
		}
	}
	return FormatAuto
}

// ParseFormat checks a format's name.
func ParseFormat(s string) (Format, error) {
	if f := Format(s); f == FormatAuto || lookup(f) != nil {
		return f, nil
	}
	return "", fmt.Errorf("format %q is not known: use %s", s, FormatNames())
}

// Formats iterates over the formats except FormatAuto, with a line of help for each.
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
	names := string(FormatAuto)
	for i, f := range formats {
		separator := ", "
		if i == len(formats)-1 {
			separator = " or "
		}
		names += separator + string(f.name)
	}
	return names
}

// lookup finds a format, or returns nil.
func lookup(f Format) *format {
	for i := range formats {
		if formats[i].name == f {
			return &formats[i]
		}
	}
	return nil
}

// detect returns the format of a file and checks its first line that is not empty. For FormatAuto, that line determines the format.
func detect(f Format, first []byte) (*format, error) {
	found := lookup(f)
	for i := 0; found == nil; i++ { // the last format claims all files
		if formats[i].claims == nil || formats[i].claims(first) {
			found = &formats[i]
		}
	}
	if found.check != nil {
		if err := found.check(first); err != nil {
			return nil, err
		}
	}
	return found, nil
}
