package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

func checkName(s string) error {
	if s == "" || len(s) > maxNameBytes {
		return fmt.Errorf("the name has %d bytes, but must have 1 to %d", len(s), maxNameBytes)
	}
	return nil
}

func checkTensor(t Tensor) error {
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

// appendValue appends a value's type, then the value.
func appendValue(b []byte, v any) ([]byte, error) {
	switch a := v.(type) {
	case []uint8:
		return appendArray(b, kindU8, a), nil
	case []int8:
		return appendArray(b, kindI8, a), nil
	case []uint16:
		return appendArray(b, kindU16, a), nil
	case []int16:
		return appendArray(b, kindI16, a), nil
	case []uint32:
		return appendArray(b, kindU32, a), nil
	case []int32:
		return appendArray(b, kindI32, a), nil
	case []float32:
		return appendArray(b, kindF32, a), nil
	case []bool:
		return appendArray(b, kindBool, a), nil
	case []string:
		return appendArray(b, kindString, a), nil
	case []uint64:
		return appendArray(b, kindU64, a), nil
	case []int64:
		return appendArray(b, kindI64, a), nil
	case []float64:
		return appendArray(b, kindF64, a), nil
	}
	kind, ok := scalarKind(v)
	if !ok {
		return nil, fmt.Errorf("GGUF has no value type for the Go type %T", v)
	}
	return appendScalar(binary.LittleEndian.AppendUint32(b, kind), v), nil
}

func appendArray[T any](b []byte, kind uint32, a []T) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(le.AppendUint32(b, kindArray), kind)
	b = le.AppendUint64(b, uint64(len(a)))
	for _, v := range a {
		b = appendScalar(b, v)
	}
	return b
}

func scalarKind(v any) (kind uint32, ok bool) {
	switch v.(type) {
	case uint8:
		return kindU8, true
	case int8:
		return kindI8, true
	case uint16:
		return kindU16, true
	case int16:
		return kindI16, true
	case uint32:
		return kindU32, true
	case int32:
		return kindI32, true
	case float32:
		return kindF32, true
	case bool:
		return kindBool, true
	case string:
		return kindString, true
	case uint64:
		return kindU64, true
	case int64:
		return kindI64, true
	case float64:
		return kindF64, true
	}
	return 0, false
}

func appendScalar(b []byte, v any) []byte {
	le := binary.LittleEndian
	switch x := v.(type) {
	case uint8:
		return append(b, x)
	case int8:
		return append(b, byte(x))
	case uint16:
		return le.AppendUint16(b, x)
	case int16:
		return le.AppendUint16(b, uint16(x))
	case uint32:
		return le.AppendUint32(b, x)
	case int32:
		return le.AppendUint32(b, uint32(x))
	case float32:
		return le.AppendUint32(b, math.Float32bits(x))
	case bool:
		if x {
			return append(b, 1)
		}
		return append(b, 0)
	case string:
		return appendString(b, x)
	case uint64:
		return le.AppendUint64(b, x)
	case int64:
		return le.AppendUint64(b, uint64(x))
	case float64:
		return le.AppendUint64(b, math.Float64bits(x))
	}
	return b
}
