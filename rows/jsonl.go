package rows

import (
	"bytes"
	"errors"
)

// beginsJSON claims files of objects. It also claims files with one array of objects, which checkJSONL refuses with a hint.
func beginsJSON(first []byte) bool { return bytes.HasPrefix(first, []byte("{")) || beginsArray(first) }

// checkJSONL refuses JSON that is not one object per line.
func checkJSONL(first []byte) error {
	switch {
	case beginsArray(first):
		return errors.New("input looks like one JSON array: put each object on a separate line, for example with jq -c '.[]'")
	case string(first) == "{":
		return errors.New("input looks like JSON objects that span several lines: put each on one line (jq -c . does so)")
	}
	return nil
}

// beginsArray reports whether a line begins an array of objects.
func beginsArray(first []byte) bool {
	rest, ok := bytes.CutPrefix(first, []byte("["))
	rest = bytes.TrimSpace(rest)
	return ok && (len(rest) == 0 || rest[0] == '{')
}
