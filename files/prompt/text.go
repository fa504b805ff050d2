package prompt

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxText is the maximum size of a file that is read as a whole, in bytes.
const maxText = 64 << 20

// ReadText reads a text as a whole. It refuses a text of more than 64 MiB.
func ReadText(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("the text is larger than %d MiB", maxText>>20)
	}
	return text, err
}

// ReadTextFile reads a file as ReadText does.
func ReadTextFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	return ReadText(f)
}

// textOf returns the text of a flag. @FILE means the content of a file, without its last line end.
func textOf(s string) (string, error) {
	path, ok := strings.CutPrefix(s, "@")
	if !ok {
		return s, nil
	}
	text, err := ReadTextFile(path)
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), err
}
