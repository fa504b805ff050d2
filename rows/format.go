package rows

import "github.com/ingot-run/ingot/openai"

// Format names a format of lines. Formats of files, such as CSV, are in package table.
type Format string

// The formats.
const (
	FormatAuto  Format = "auto" // chosen by the first line that is not empty
	FormatJSONL Format = "jsonl"
	FormatText  Format = "text"
)

// format describes how to recognise and read files of one format.
type format struct {
	name Format
	// claims reports whether a file with the given first line has this format. The line has no white space around it. If claims is
	// nil, the format accepts all files.
	claims func(first []byte) bool
	// check returns an error if the first line shows that the file has no rows in this format. If check is nil, every
	// first line is accepted.
	check func(first []byte) error
	// parse reads a row. Its errors are *openai.Error. The result may share memory with the line.
	parse func(line []byte) (openai.InputLine, error)
}

// formats are the formats of lines. FormatAuto selects the first format that claims a file.
var formats = []format{
	{
		name:   FormatJSONL,
		claims: beginsJSON,
		check:  checkJSONL,
		parse:  openai.ParseInputLine,
	},
	{
		name:  FormatText,
		parse: parseText,
	},
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
