package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// EncodeLines encodes texts that are JSON strings, one on each line of stdin, and writes the ids of
// each as a JSON array. An error in a line does not affect the output of the lines before it.
func (t *Tokenizer) EncodeLines(in io.Reader, out io.Writer, opts EncodeOptions) (err error) {
	r, w := bufio.NewReaderSize(in, 64<<10), bufio.NewWriterSize(out, 64<<10)
	defer func() { err = errors.Join(err, w.Flush()) }()
	enc := json.NewEncoder(w)
	for line := 1; ; line++ {
		raw, readErr := r.ReadBytes('\n')
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return fmt.Errorf("read stdin: %w", readErr)
		}
		if readErr != nil && len(raw) == 0 {
			return nil
		}
		text, err := jsonString(raw)
		if err != nil {
			return fmt.Errorf("read stdin: line %d: %w", line, err)
		}
		err = enc.Encode(append([]int32{}, t.Encode(text, opts)...)) // not nil, which would be null
		if err == nil && r.Buffered() == 0 {
			err = w.Flush() // a caller may wait for the ids of a line before it writes the next line
		}
		if err != nil {
			return fmt.Errorf("write ids: %w", err)
		}
	}
}

func jsonString(raw []byte) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '"' {
		return "", errors.New("the line is not a JSON string")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("the line is not a JSON string: %w", err)
	}
	return s, nil
}
