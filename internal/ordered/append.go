package ordered

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
)

// AppendJSON appends a value as JSON text without white space. A number that is too large for a
// float64 stays too large.
func AppendJSON(dst []byte, v Value) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case *big.Int:
		return v.Append(dst, 10)
	case float64:
		return appendFloat(dst, v)
	case string:
		return appendString(dst, v)
	case []Value:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, item)
		}
		return append(dst, ']')
	case *Object:
		dst = append(dst, '{')
		for i, e := range v.entries {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(append(appendString(dst, e.key), ':'), e.value)
		}
		return append(dst, '}')
	}
	panic("not a JSON value") // see Value
}

func appendFloat(dst []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(dst, "1e999"...)
	case math.IsInf(v, -1):
		return append(dst, "-1e999"...)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	if !bytes.ContainsAny(dst[start:], ".e") {
		dst = append(dst, ".0"...) // it stays a float64 when it is read
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) //nolint:errcheck,errchkjson // a text can always be encoded
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
