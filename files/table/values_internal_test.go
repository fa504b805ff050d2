package table

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"
)

// The kind of a value, and whether float64 has it exactly.
func TestKindsOfValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		kind Kind
		wide bool
	}{
		"": {"", false}, "null": {"", false}, " null ": {"", false}, `""`: {String, false}, `"1"`: {String, false}, "true": {Boolean, false}, " false": {Boolean, false},
		"{}": {JSON, false}, "[1]": {JSON, false}, "0": {Integer, false}, "-5": {Integer, false}, "1.0": {Number, false}, "1e3": {Number, false}, "1E3": {Number, false},
		"9007199254740992": {Integer, false}, "9007199254740993": {Integer, true}, "-9007199254740992": {Integer, false}, "-9007199254740993": {Integer, true},
		"9223372036854775807": {Integer, true}, "9223372036854775808": {JSON, false}, "1e999": {JSON, false},
	} {
		kind, wide := kindOf(json.RawMessage(text))
		require.Equal(t, want.kind, kind, text)
		require.Equal(t, want.wide, wide, text)
	}
}

// The kind of a column fits all its values.
func TestKindsOfColumns(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]Kind{
		"null": "", "1": Integer, "1,2": Integer, "1,null,2": Integer, "1,1.5": Number, "1.5,1": Number, "1.5,2.5": Number, `1,"a"`: JSON, `"a",1`: JSON, `"a","b"`: String,
		"true,false": Boolean, "true,1": JSON, "{},[]": JSON, `{},"a"`: JSON, "9007199254740993": Integer, "9007199254740993,1": Integer,
		"9007199254740993,1.5": JSON, "1.5,9007199254740993": JSON, "1,1.5,9007199254740993": JSON, "1.5,2.5,9007199254740993,2.5": JSON,
	} {
		var c scanned
		for v := range strings.SplitSeq(values, ",") {
			c.add(json.RawMessage(v))
		}
		require.Equal(t, want, c.kind, values)
	}
}

// A record's values stand in the order of the columns, whatever the order of its fields is.
func TestValuesInColumns(t *testing.T) {
	t.Parallel()
	l, err := newLayout([]Column{{Name: "a", Kind: String}, {Name: "b", Kind: String}, {Name: "c", Kind: String}})
	require.NoError(t, err)
	fields := func(pairs ...string) (list []Field) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, Field{Name: pairs[i], Value: json.RawMessage(pairs[i+1])})
		}
		return list
	}
	for _, c := range []struct {
		fields []Field
		want   [3]string
	}{
		{fields("a", "1", "b", "2", "c", "3"), [3]string{"1", "2", "3"}},
		{fields("c", "3", "a", "1"), [3]string{"1", "", "3"}},
		{fields("b", " 2 ", "c", "null"), [3]string{"", "2", ""}},
		{fields(), [3]string{}},
		{fields("a", "1", "b", "2", "c", "3", "a", "4"), [3]string{"4", "2", "3"}},
	} {
		values, err := l.of(Record{Fields: c.fields})
		require.NoError(t, err)
		for i, want := range c.want {
			require.Equal(t, want, string(values[i]))
			require.Equal(t, want == "", values[i] == nil)
		}
	}
	_, err = l.of(Record{Number: 7, Fields: fields("a", "1", "d", "2")})
	require.EqualError(t, err, `record 7 has a field "d", but the table has no such column`)
	_, err = newLayout(nil)
	require.ErrorContains(t, err, "the table has no columns")
	_, err = newLayout([]Column{{Name: "a", Kind: String}, {Name: "a", Kind: Number}})
	require.EqualError(t, err, `the table has two columns with the name "a"`)
	_, err = textOf(nil)
	require.Error(t, err)
	for raw, want := range map[string]string{`"a\nb"`: "a\nb", `{"a": [1, 2]}`: `{"a":[1,2]}`, "1.50": "1.50", "true": "true"} {
		text, err := textOf(json.RawMessage(raw))
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
}

// Numbers of Parquet files, with values of IEEE 754 and of the format's specification.
func TestNumbersOfParquet(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint16]float64{
		0x0000: 0, 0x3C00: 1, 0xC000: -2, 0x7BFF: 65504, 0x0400: 0x1p-14, 0x0001: 0x1p-24, 0x03FF: 1023 * 0x1p-24, 0x8001: -0x1p-24,
		0x3555: 0.333251953125, 0x7C00: math.Inf(1), 0xFC00: math.Inf(-1),
	} {
		require.Equal(t, want, halfFloat(bits), "%04x", bits)
	}
	require.True(t, math.IsNaN(halfFloat(0x7C01)))
	require.True(t, math.Signbit(halfFloat(0x8000)))

	for f, want := range map[float64]string{0: "0", 1.5: "1.5", 1e-6: "0.000001", 9e-7: "9e-07", 1e20: "100000000000000000000", 1e21: "1e+21", -1e21: "-1e+21", math.Inf(1): "null", math.Inf(-1): "null"} {
		require.Equal(t, want, string(appendFloat(nil, f, 64)))
	}
	require.Equal(t, "null", string(appendFloat(nil, math.NaN(), 64)))
	require.Equal(t, "0.1", string(appendFloat(nil, float64(float32(0.1)), 32)))

	for _, c := range []struct {
		v     parquet.Value
		scale int
		want  string
	}{
		{parquet.ValueOf(int32(-12345)), 2, "-123.45"},
		{parquet.ValueOf(int64(7)), 3, "0.007"},
		{parquet.ValueOf(int64(7)), 0, "7"},
		{parquet.ValueOf([]byte{0x01, 0x00}), 1, "25.6"},
		{parquet.ValueOf([]byte{0xFF, 0x00}), 1, "-25.6"},
		{parquet.ValueOf([]byte{0x80}), 0, "-128"},
		{parquet.ValueOf([]byte{0x7F}), 0, "127"},
		{parquet.ValueOf([]byte{}), 2, "0.00"},
		{parquet.ValueOf(int64(7)), 1000, "0." + strings.Repeat("0", 999) + "7"},
		{parquet.ValueOf(int64(7)), 1001, "7"},
	} {
		require.Equal(t, c.want, decimal(c.v, c.scale))
	}
	require.EqualValues(t, -5, integer(parquet.ValueOf(int32(-5))))
	require.EqualValues(t, math.MinInt64, integer(parquet.ValueOf(int64(math.MinInt64))))
	for v, want := range map[any]string{int32(-1): "4294967295", int64(-1): "18446744073709551615", int32(5): "5"} {
		text, err := appendUnsigned(nil, parquet.ValueOf(v))
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	// The Julian days of 1970-01-02 and 2000-01-01 are 2440589 and 2451545.
	for i, want := range map[deprecated.Int96]time.Time{
		{5, 0, 2440589}:              time.Date(1970, 1, 2, 0, 0, 0, 5, time.UTC),
		{1218936832, 10058, 2451545}: time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC),
	} {
		require.Equal(t, want, int96Time(parquet.ValueOf(i)))
	}
	// Values of a fixed length, which a damaged file may lack.
	for _, c := range []struct {
		logical format.LogicalTypeValue
		t       parquet.Type
		v       parquet.Value
		kind    Kind
		want    string
	}{
		{&format.UUIDType{}, parquet.ByteArrayType, parquet.ValueOf([]byte("0123456789abcdef")), String, `"30313233-3435-3637-3839-616263646566"`},
		{&format.UUIDType{}, parquet.ByteArrayType, parquet.ValueOf([]byte("0123456789abcde")), String, ""},
		{&format.Float16Type{}, parquet.ByteArrayType, parquet.ValueOf([]byte{0, 0x3C}), Number, "1"},
		{&format.Float16Type{}, parquet.ByteArrayType, parquet.ValueOf([]byte{0}), Number, ""},
		{&format.JsonType{}, parquet.ByteArrayType, parquet.ValueOf([]byte(`[1, 2]`)), JSON, "[1, 2]"},
		{&format.JsonType{}, parquet.ByteArrayType, parquet.ValueOf([]byte(`[1`)), JSON, ""},
		{&format.JsonType{}, parquet.ByteArrayType, parquet.ValueOf([]byte("\"\xff\"")), JSON, ""},
		{&format.StringType{}, parquet.ByteArrayType, parquet.ValueOf([]byte("a\"")), String, `"a\""`},
		{&format.DateType{}, parquet.Int32Type, parquet.ValueOf(int32(-1)), String, `"1969-12-31"`},
		{&format.IntType{BitWidth: 8, IsSigned: true}, parquet.Int32Type, parquet.ValueOf(int32(-1)), Integer, "-1"},
		{&format.IntType{BitWidth: 32}, parquet.Int32Type, parquet.ValueOf(int32(-1)), Integer, "4294967295"},
		{nil, parquet.BooleanType, parquet.ValueOf(true), Boolean, "true"},
		{nil, parquet.FloatType, parquet.ValueOf(float32(0.1)), Number, "0.1"},
		{nil, parquet.DoubleType, parquet.ValueOf(0.1), Number, "0.1"},
		{nil, parquet.Int96Type, parquet.ValueOf(deprecated.Int96{5, 0, 2440589}), String, `"1970-01-02T00:00:00.000000005"`},
		{nil, parquet.ByteArrayType, parquet.ValueOf([]byte{0xFF, 0}), String, `"/wA="`},
	} {
		leaf, err := newLeafType(c.t, c.logical)
		require.NoError(t, err)
		require.Equal(t, c.kind, leaf.kind)
		text, err := leaf.append(nil, c.v)
		if c.want == "" {
			require.Error(t, err)
		} else {
			require.NoError(t, err)
			require.Equal(t, c.want, string(text))
		}
	}
	text, err := bytesText(parquet.ValueOf([]byte("é")))
	require.NoError(t, err)
	require.Equal(t, "é", text)
	text, err = bytesText(parquet.ValueOf([]byte{0xFF, 0}))
	require.NoError(t, err)
	require.Equal(t, "/wA=", text)
}

// A row has the values of its own columns only, and values of columns that the file does not have
// are left out.
func TestValuesOfARow(t *testing.T) {
	t.Parallel()
	value := func(column, n int) parquet.Value { return parquet.ValueOf(int64(n)).Level(0, 0, column) }
	var r rowValues
	for n := range 3 { // the values of an earlier row are not read
		r.set(parquet.Row{value(0, n), value(1, 10+n), value(1, 20+n), value(2, 0), value(3, 0)}, 2)
		require.Len(t, r.left, 2)
		require.Equal(t, []parquet.Value{value(0, n)}, r.left[0])
		require.Equal(t, []parquet.Value{value(1, 10+n), value(1, 20+n)}, r.left[1])
	}
	r.set(parquet.Row{value(0, 5)}, 2)
	v, err := r.peek(0)
	require.NoError(t, err)
	require.Equal(t, value(0, 5), v)
	_, err = r.peek(1)
	require.ErrorIs(t, err, errNoValue)
}

// A temporary file has no name, so that it does not stay after a crash.
func TestTemporaryFiles(t *testing.T) { //nolint:paralleltest // it sets the folder of temporary files
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	f, err := temporary()
	require.NoError(t, err)
	defer f.Close()
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, names)
	_, err = f.WriteString("a")
	require.NoError(t, err)
	text := make([]byte, 1)
	_, err = f.ReadAt(text, 0)
	require.NoError(t, err)
	require.Equal(t, "a", string(text))

	t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
	_, err = openParquet(new(file))
	require.ErrorIs(t, err, os.ErrNotExist)
	in := Input{once: stdinName}
	require.ErrorIs(t, in.Copy(), os.ErrNotExist)
}

// The beginning of a file decides between an array, lines and another format.
func TestBeginningsOfFiles(t *testing.T) {
	t.Parallel()
	for start, want := range map[string]bool{"[": true, "[ \n{": true, "[]": true, "[1": false, "[[": false, "{\n": true, "{\r\n": true, "{": false, `{"a"`: false, "": false} {
		require.Equal(t, want, beginsArray([]byte(start)), start)
	}
	for start, says := range map[string]string{
		"\xFF\xFEa": "UTF-16", "\xFE\xFFa": "UTF-16", "\x1F\x8Ba": "compressed twice: decompress it", "\x28\xB5\x2F\xFD": "compressed twice", "\xFD7zX": "compressed (xz)",
		"BZh9": "compressed (bzip2)", "PK\x03\x04": "a zip archive or a spreadsheet", "BZ": "", "PK": "", "a,b": "",
	} {
		err := refuseBinary([]byte(start))
		if says == "" {
			require.NoError(t, err, start)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}

// The sample of a seed, with SplitMix64's published first output for seed 0.
func TestDrawsOfASample(t *testing.T) {
	t.Parallel()
	require.Equal(t, uint64(0xe220a8397b1dcdaf), mix(0))
	require.Equal(t, uint64(0x6e789e6aa1b965f4), mix(0x9e3779b97f4a7c15))
	s := &sample{seed: mix(3), size: 2}
	require.False(t, s.has(1))
	var best []int
	for n := 1; n <= 50; n++ {
		s.add(n)
	}
	for n := 1; n <= 50; n++ {
		smaller := 0
		for m := 1; m <= 50; m++ {
			if s.key(m).less(s.key(n)) {
				smaller++
			}
		}
		require.Equal(t, smaller < 2, s.has(n), n)
		if smaller < 2 {
			best = append(best, n)
		}
	}
	require.Len(t, best, 2)
	require.True(t, key{1, 2}.less(key{1, 3}))
	require.False(t, key{1, 3}.less(key{1, 3}))
	require.True(t, key{0, 9}.less(key{1, 3}))
}

func TestValuesOfConditions(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]any{
		"1": 1, "1.5": 1.5, "1e400": math.Inf(1), "9223372036854775808": 9223372036854775808.0, "null": nil, `"a"`: "a", "true": true,
		`[1, [2.5]]`: []any{1, []any{2.5}}, `{"a": {"b": 3}}`: map[string]any{"a": map[string]any{"b": 3}},
	} {
		v, err := valueOf(json.RawMessage(raw))
		require.NoError(t, err)
		require.Equal(t, want, v, raw)
	}
	_, err := valueOf(json.RawMessage("{"))
	require.Error(t, err)
}

// A condition reads only the columns that it names, so that the others need not be readable.
func TestConditionsReadTheirColumns(t *testing.T) {
	t.Parallel()
	c, err := newCondition("a == 1", []string{"a", "b"})
	require.NoError(t, err)
	matches, err := c.matches(Record{Fields: []Field{{"a", json.RawMessage("1")}, {"b", json.RawMessage("{")}}})
	require.NoError(t, err)
	require.True(t, matches)
	_, err = c.matches(Record{Number: 7, Fields: []Field{{"a", json.RawMessage("{")}}})
	require.ErrorContains(t, err, `record 7: column "a": `)
}

// Texts become JSON with as few escapes as possible.
func TestQuotedTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": `""`, "a b": `"a b"`, "é": `"é"`, `"<&>"`: `"\"<&>\""`, "\\": `"\\"`, "\n": `"\n"`, "\x1f": `"\u001f"`, "\x7f": "\"\x7f\"",
	} {
		require.Equal(t, want, string(quote(text)), "%q", text)
	}
}

// Names of encodings are compared by their letters and digits alone.
func TestPairsOfLetters(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]bool{"az": true, "z0": true, "09": true}, letterPairs("A-z_0 9é"))
	require.Empty(t, letterPairs("a"))
}
