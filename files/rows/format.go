package rows

import "github.com/ingot-run/ingot/openai"

// Format is the name of a format of lines. Package table has the formats of files, such as CSV.
type Format string

// The formats.
const (
	FormatAuto  Format = "auto"  // the format that the first non-empty line has
	FormatJSONL Format = "jsonl" // a JSON object per line
	FormatText  Format = "text"  // a prompt per line
)

// format describes how to recognise and read files of one format.
type format struct {
	name Format
	// claims reports whether a file with the given first line has this format. White space around the line has been removed. If claims is
	// nil, the format accepts all files.
	claims func(first []byte) bool
	// check returns an error if the first line shows that the file has no rows in this format. If check is nil, every
	// first line is accepted.
	check func(first []byte) error
	// parse reads a row. Its errors are *openai.Error. The row may share the memory of line.
	parse func(line []byte) (openai.InputLine, error)
}

// formats has all formats of lines. FormatAuto selects the first one whose claims accepts the file.
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

// lookup returns the format with a name, or nil if there is none.
func lookup(f Format) *format {
	for i := range formats {
		if formats[i].name == f {
			return &formats[i]
		}
	}
	return nil
}

// detect returns the format of a file and checks the file's first non-empty line, which determines the format for FormatAuto.
func detect(f Format, first []byte) (*format, error) {
	found := lookup(f)
	for i := 0; found == nil; i++ { // always ends, since the last format claims all files
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
