package rows

import (
	"bytes"
	"errors"
)

// beginsJSON reports whether a file has JSON objects. It accepts files with one array of objects too, so that checkJSONL refuses them
// with a hint.
func beginsJSON(first []byte) bool { return bytes.HasPrefix(first, []byte("{")) || beginsArray(first) }

// checkJSONL refuses JSON that is not one object per line.
func checkJSONL(first []byte) error {
	switch {
	case beginsArray(first):
		return errors.New("the input looks like one JSON array: put each object on a separate line, for example with jq -c '.[]'")
	case string(first) == "{":
		return errors.New("the input looks like JSON objects that span several lines: put each object on one line (jq -c . does this)")
	}
	return nil
}

// beginsArray reports whether a line begins an array of objects.
func beginsArray(first []byte) bool {
	rest, ok := bytes.CutPrefix(first, []byte("["))
	rest = bytes.TrimSpace(rest)
	return ok && (len(rest) == 0 || rest[0] == '{')
}
