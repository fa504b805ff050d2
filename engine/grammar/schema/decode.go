package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/grammar/source"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Limits of the text of a schema.
const (
	maxText  = 512 << 10 // bytes
	maxDepth = 200       // levels of nested JSON
)

// decode reads a JSON text. Numbers keep their digits (json.Number) and objects the order of their
// keys; a key that occurs twice has its last value.
func decode(text string) (any, error) {
	switch {
	case len(text) > maxText:
		return nil, &source.Error{Message: fmt.Sprintf("the schema has %d bytes; at most %d are allowed", len(text), maxText)}
	case !utf8.ValidString(text):
		return nil, &source.Error{Message: "the schema is not UTF-8"}
	}
	if at := ordered.HalfSurrogate([]byte(text)); at >= 0 {
		return nil, &source.Error{Message: fmt.Sprintf("the schema has half of a surrogate pair at offset %d, which no answer can have: remove it", at)}
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the JSON value")
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the text ends too early")
	}
	if err != nil {
		return nil, &source.Error{Message: fmt.Sprintf("the schema is not JSON: offset %d: %v", d.InputOffset(), err)}
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		o := ordered.NewObject()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			o.Set(key.(string), v)
		}
		_, err := d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return t, nil
}
