package gguf

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// ErrMissing is wrapped by the error of a Metadata getter if the key is absent.
var ErrMissing = errors.New("missing")

// Metadata is a file's key-value section, in file order. Values are uint8, int8, uint16, int16,
// uint32, int32, uint64, int64, float32, float64, bool, string, or a slice of one of these. It
// remains valid after File.Close. Many goroutines may read it at once.
type Metadata struct {
	keys   []string
	values map[string]any
}

// NewMetadata returns empty metadata, to be filled with Set and passed to Write.
func NewMetadata() *Metadata { return &Metadata{} }

// Set adds a key at the end, or replaces the value of a key without changing the order. v must have
// one of the types listed at Metadata; Write returns an error for other types, such as int.
func (m *Metadata) Set(key string, v any) {
	if m.values == nil {
		m.values = map[string]any{}
	}
	if !m.Has(key) {
		m.keys = append(m.keys, key)
	}
	m.values[key] = v
}

// Keys returns the keys in file order.
func (m *Metadata) Keys() []string { return slices.Clone(m.keys) }

// Has reports whether the key is present.
func (m *Metadata) Has(key string) bool {
	_, ok := m.values[key]
	return ok
}

// Any returns the value of a key in the type in which it is stored; false if the key is absent. A
// slice belongs to the metadata: do not change it.
func (m *Metadata) Any(key string) (any, bool) {
	v, ok := m.values[key]
	return v, ok
}

// String returns the value of a key that is a string. If the key is absent, the error wraps
// ErrMissing. If the value has another type, the error names the key and both types. This applies
// to all getters.
func (m *Metadata) String(key string) (string, error) { return get[string](m, key) }

// Bool returns a boolean.
func (m *Metadata) Bool(key string) (bool, error) { return get[bool](m, key) }

// Strings returns an array of strings. The slice belongs to the metadata: do not change it.
func (m *Metadata) Strings(key string) ([]string, error) { return get[[]string](m, key) }

// Bools returns an array of booleans. The slice belongs to the metadata: do not change it.
func (m *Metadata) Bools(key string) ([]bool, error) { return get[[]bool](m, key) }

func get[T any](m *Metadata, key string) (T, error) {
	var zero T
	v, ok := m.values[key]
	if !ok {
		return zero, missing(key)
	}
	t, ok := v.(T)
	if !ok {
		return zero, wrongType(key, v, fmt.Sprintf("%T", zero))
	}
	return t, nil
}

// Uint returns a non-negative integer of any width.
func (m *Metadata) Uint(key string) (uint64, error) {
	v, err := m.integer(key)
	if err != nil || v.CanUint() {
		return v.Uint(), err
	}
	if v.Int() < 0 {
		return 0, fmt.Errorf("metadata %s: the value is %d, but must be at least 0", key, v.Int())
	}
	return uint64(v.Int()), nil
}

// Int returns an integer of any width that fits in int64.
func (m *Metadata) Int(key string) (int64, error) {
	v, err := m.integer(key)
	if err != nil {
		return 0, err
	}
	i, ok := integer(v)
	if !ok {
		return 0, fmt.Errorf("metadata %s: %d does not fit into a signed 64-bit integer", key, v.Uint())
	}
	return i, nil
}

// integer returns the value of a key that is an integer; after an error, the unsigned number 0.
func (m *Metadata) integer(key string) (reflect.Value, error) {
	none := reflect.ValueOf(uint64(0))
	v, ok := m.values[key]
	if !ok {
		return none, missing(key)
	}
	if v == nil || !isInteger(reflect.TypeOf(v)) {
		return none, wrongType(key, v, "an integer")
	}
	return reflect.ValueOf(v), nil
}

// Float returns a float32 or float64.
func (m *Metadata) Float(key string) (float64, error) {
	v, ok := m.values[key]
	if !ok {
		return 0, missing(key)
	}
	switch f := v.(type) {
	case float32:
		return float64(f), nil
	case float64:
		return f, nil
	}
	return 0, wrongType(key, v, "a float")
}

// Floats returns an array of floats; float64 is rounded to float32. The slice may belong to the
// metadata: do not change it.
func (m *Metadata) Floats(key string) ([]float32, error) {
	v, ok := m.values[key]
	if !ok {
		return nil, missing(key)
	}
	switch f := v.(type) {
	case []float32:
		return f, nil
	case []float64:
		out := make([]float32, len(f))
		for i, x := range f {
			out[i] = float32(x)
		}
		return out, nil
	}
	return nil, wrongType(key, v, "an array of floats")
}

// Ints returns an array of integers of any width. The slice may belong to the metadata: do not
// change it.
func (m *Metadata) Ints(key string) ([]int64, error) {
	v, ok := m.values[key]
	if !ok {
		return nil, missing(key)
	}
	if a, ok := v.([]int64); ok {
		return a, nil
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice || !isInteger(list.Type().Elem()) {
		return nil, wrongType(key, v, "an array of integers")
	}
	out := make([]int64, list.Len())
	for i := range out {
		n, ok := integer(list.Index(i))
		if !ok {
			return nil, fmt.Errorf("metadata %s: element %d is %d, which does not fit into a signed 64-bit integer", key, i, list.Index(i).Uint())
		}
		out[i] = n
	}
	return out, nil
}

func isInteger(t reflect.Type) bool {
	return slices.Contains(kindTypes[:], t) && t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64
}

// integer returns an integer of any type as an int64; false if it does not fit.
func integer(v reflect.Value) (int64, bool) {
	if v.CanInt() {
		return v.Int(), true
	}
	return int64(v.Uint()), v.Uint() <= math.MaxInt64
}

func missing(key string) error { return fmt.Errorf("metadata %s: %w", key, ErrMissing) }

func wrongType(key string, v any, want string) error {
	return fmt.Errorf("metadata %s: the type is %T, but must be %s", key, v, want)
}
