package gguf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetadataGetters(t *testing.T) {
	t.Parallel()
	m, _ := sample()

	for key, want := range map[string]uint64{"u8": 200, "u16": 60000, "u32": 4_000_000_000, "u64": 1 << 63} {
		got, err := m.Uint(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for key, want := range map[string]int64{"u8": 200, "i8": -3, "i16": -300, "i32": -70000, "u32": 4_000_000_000, "i64": -1 << 40} {
		got, err := m.Int(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for key, want := range map[string]float64{"f32": 0.5, "f64": 0.1} {
		got, err := m.Float(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for key, want := range map[string][]int64{
		"u8s": {1, 2}, "i8s": {-1, 2}, "u16s": {1, 2}, "i16s": {-1, 2},
		"u32s": {1, 2}, "i32s": {-1, 2}, "u64s": {1, 2}, "i64s": {-1, 2},
	} {
		got, err := m.Ints(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, key := range []string{"f32s", "f64s"} {
		got, err := m.Floats(key)
		require.NoError(t, err)
		require.Equal(t, []float32{0.5, -2}, got)
	}
	yes, err := m.Bool("yes")
	require.NoError(t, err)
	require.True(t, yes)
	text, err := m.String("general.architecture")
	require.NoError(t, err)
	require.Equal(t, "llama", text)
	texts, err := m.Strings("strings")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "", "ünï", "\x00\xff"}, texts)

	v, ok := m.Any("bools")
	require.True(t, ok)
	require.Equal(t, []bool{true, false, true}, v)
	require.True(t, m.Has("empty"))
	require.Equal(t, "general.architecture", m.Keys()[0])
	m.Set("u8", uint8(1))
	require.Len(t, m.Keys(), 27, "replacing adds no key")
}

func TestMetadataErrors(t *testing.T) {
	t.Parallel()
	m, _ := sample()
	m.Set("large", []uint64{1, 1 << 63})
	getters := map[string]func(key string) error{
		"string": func(k string) error { _, err := m.String(k); return err },
		"bool":   func(k string) error { _, err := m.Bool(k); return err },
		"uint":   func(k string) error { _, err := m.Uint(k); return err },
		"int":    func(k string) error { _, err := m.Int(k); return err },
		"float":  func(k string) error { _, err := m.Float(k); return err },
		"texts":  func(k string) error { _, err := m.Strings(k); return err },
		"floats": func(k string) error { _, err := m.Floats(k); return err },
		"ints":   func(k string) error { _, err := m.Ints(k); return err },
	}
	for name, get := range getters {
		err := get("absent.key")
		require.ErrorIs(t, err, ErrMissing, name)
		require.ErrorContains(t, err, "absent.key", name)
	}
	for _, c := range []struct{ getter, key, want string }{
		{"string", "u8", "metadata u8: the type is uint8, but must be string"},
		{"bool", "u8", "metadata u8: the type is uint8, but must be bool"},
		{"uint", "f32", "metadata f32: the type is float32, but must be an integer"},
		{"uint", "i8", "metadata i8: the value is -3, but must be at least 0"},
		{"int", "empty", "metadata empty: the type is string, but must be an integer"},
		{"int", "u64", "metadata u64: 9223372036854775808 does not fit into a signed 64-bit integer"},
		{"float", "u8", "metadata u8: the type is uint8, but must be a float"},
		{"texts", "f32s", "metadata f32s: the type is []float32, but must be []string"},
		{"floats", "i8s", "metadata i8s: the type is []int8, but must be an array of floats"},
		{"ints", "f32s", "metadata f32s: the type is []float32, but must be an array of integers"},
		{"ints", "large", "metadata large: element 1 is 9223372036854775808, which does not fit into a signed 64-bit integer"},
	} {
		err := getters[c.getter](c.key)
		require.EqualError(t, err, c.want)
		require.NotErrorIs(t, err, ErrMissing)
	}
}

func TestZeroMetadata(t *testing.T) {
	t.Parallel()
	var m Metadata
	require.False(t, m.Has("k"))
	m.Set("k", "v")
	require.Equal(t, []string{"k"}, m.Keys())
}
