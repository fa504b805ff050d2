package gguf

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
)

func checkName(s string) error {
	if s == "" || len(s) > maxNameBytes {
		return fmt.Errorf("the name has %d bytes, but must have 1 to %d", len(s), maxNameBytes)
	}
	return nil
}

func checkTensor(t Tensor) error {
	if t.Type.readable() && !t.Type.InFiles() {
		return t.Type.unsupported()
	}
	if err := checkName(t.Name); err != nil {
		return err
	}
	if len(t.Shape) < 1 || len(t.Shape) > maxDims {
		return fmt.Errorf("has %d dimensions, but must have 1 to %d", len(t.Shape), maxDims)
	}
	for _, d := range t.Shape {
		if d < 1 {
			return fmt.Errorf("has shape %v, but each dimension must be at least 1", t.Shape)
		}
	}
	row, err := t.Type.RowBytes(t.Shape[0])
	if err != nil {
		return err
	}
	want := row * (t.Elements() / t.Shape[0])
	if len(t.Data) != want {
		return fmt.Errorf("has %d bytes of data, but shape %v of %v needs %d", len(t.Data), t.Shape, t.Type, want)
	}
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func appendValue(b []byte, v any) ([]byte, error) {
	le := binary.LittleEndian
	t := reflect.TypeOf(v)
	isArray := t != nil && t.Kind() == reflect.Slice
	if isArray {
		b = le.AppendUint32(b, kindArray)
		t = t.Elem()
	}
	kind := slices.Index(kindTypes[:], t)
	if kind < 0 || kind == int(kindArray) {
		return nil, fmt.Errorf("GGUF has no value type for the Go type %T", v)
	}
	b = le.AppendUint32(b, uint32(kind))
	if isArray {
		b = le.AppendUint64(b, uint64(reflect.ValueOf(v).Len()))
	}
	switch v := v.(type) {
	case string:
		return appendString(b, v), nil
	case []string:
		for _, s := range v {
			b = appendString(b, s)
		}
		return b, nil
	}
	return binary.Append(b, le, v)
}
