package rows

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/openai"
)

// Format is the name of a format of lines. Package table has the formats of files, such as CSV.
type Format string

// The formats.
const (
	FormatAuto  Format = "auto"  // the format that the first non-empty line has
	FormatJSONL Format = "jsonl" // a JSON object per line
	FormatText  Format = "text"  // a prompt per line
)

// parser reads a row of one format. Its errors are *openai.Error. The row may share the memory of
// line.
type parser func(line []byte) (openai.InputLine, error)

// detect returns the parser of a file. The file's first non-empty line determines the format for
// FormatAuto. JSON that is not one object per line is refused.
func detect(f Format, first []byte) (parser, error) {
	array := beginsArray(first)
	switch {
	case f == FormatText || f == FormatAuto && !array && !bytes.HasPrefix(first, []byte("{")):
		return parseText, nil
	case array:
		return nil, errors.New("the input looks like one JSON array: put each object on a separate line, for example with jq -c '.[]'")
	case string(first) == "{":
		return nil, errors.New("the input looks like JSON objects that span several lines: put each object on one line (jq -c . does this)")
	}
	return openai.ParseInputLine, nil
}

func parseText(line []byte) (openai.InputLine, error) {
	return openai.InputLine{Endpoint: openai.Chat, Body: openai.UserMessage(string(line))}, nil
}

func beginsArray(first []byte) bool {
	rest, ok := bytes.CutPrefix(first, []byte("["))
	rest = bytes.TrimSpace(rest)
	return ok && (len(rest) == 0 || rest[0] == '{')
}

// skipStart removes a UTF-8 byte order mark from part, the first bytes of a file. err is the error
// of reading part. If the file is not UTF-8 text, for example compressed, skipStart returns an
// error that says so; otherwise it returns err.
func skipStart(part []byte, err error) ([]byte, error) {
	for _, other := range []struct{ start, name, instead string }{
		{"\xFF\xFE", "UTF-16", "convert it, for example with iconv -f UTF-16 -t UTF-8"},
		{"\xFE\xFF", "UTF-16", "convert it, for example with iconv -f UTF-16 -t UTF-8"},
		{"\x1F\x8B", "compressed (gzip)", "decompress it"},
		{"\x28\xB5\x2F\xFD", "compressed (zstd)", "decompress it"},
		{"\xFD7zXZ\x00", "compressed (xz)", "decompress it"},
		{"PK\x03\x04", "a zip archive", "extract the file in it"},
		{"PAR1\x15", "a Parquet file", "convert it to JSON, one object per line"},
	} {
		if bytes.HasPrefix(part, []byte(other.start)) {
			return nil, fmt.Errorf("the input is %s: %s", other.name, other.instead)
		}
	}
	return bytes.TrimPrefix(part, []byte{0xEF, 0xBB, 0xBF}), err
}
