package table

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

type leafType struct {
	kind   Kind
	append func(dst []byte, v parquet.Value) ([]byte, error)
}

// newLeafType returns the kind and the JSON form of a column's values. Times and decimals become
// strings, since JSON has no types for them.
func newLeafType(t parquet.Type, logical format.LogicalTypeValue) (leafType, error) {
	text := func(value func(v parquet.Value) (string, error)) (leafType, error) {
		return leafType{String, func(dst []byte, v parquet.Value) ([]byte, error) {
			s, err := value(v)
			return append(dst, quote(s)...), err
		}}, nil
	}
	switch l := logical.(type) {
	case *format.StringType, *format.EnumType:
		return text(utf8Text)
	case *format.JsonType:
		return leafType{JSON, appendJSON}, nil
	case *format.DecimalType:
		return text(func(v parquet.Value) (string, error) { return decimal(v, int(l.Scale)), nil })
	case *format.DateType:
		return text(func(v parquet.Value) (string, error) {
			return time.Unix(int64(v.Int32())*86400, 0).UTC().Format(time.DateOnly), nil
		})
	case *format.TimeType:
		return text(func(v parquet.Value) (string, error) {
			return timeOf(v, l.Unit).Format("15:04:05.999999999"), nil
		})
	case *format.TimestampType:
		layout := "2006-01-02T15:04:05.999999999"
		if l.IsAdjustedToUTC {
			layout += "Z"
		}
		return text(func(v parquet.Value) (string, error) { return timeOf(v, l.Unit).Format(layout), nil })
	case *format.UUIDType:
		return text(func(v parquet.Value) (string, error) {
			b := v.ByteArray()
			if len(b) != 16 {
				return "", errors.New("a UUID does not have 16 bytes")
			}
			h := hex.EncodeToString(b)
			return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-"), nil
		})
	case *format.IntType:
		if !l.IsSigned {
			return leafType{Integer, appendUnsigned}, nil
		}
	case *format.Float16Type:
		return leafType{Number, func(dst []byte, v parquet.Value) ([]byte, error) {
			b := v.ByteArray()
			if len(b) != 2 {
				return nil, errors.New("a float16 does not have 2 bytes")
			}
			return appendFloat(dst, halfFloat(binary.LittleEndian.Uint16(b)), 64), nil
		}}, nil
	}
	switch t.Kind() {
	case parquet.Boolean:
		return leafType{Boolean, func(dst []byte, v parquet.Value) ([]byte, error) { return strconv.AppendBool(dst, v.Boolean()), nil }}, nil
	case parquet.Int32, parquet.Int64:
		return leafType{Integer, func(dst []byte, v parquet.Value) ([]byte, error) { return strconv.AppendInt(dst, integer(v), 10), nil }}, nil
	case parquet.Float:
		return leafType{Number, func(dst []byte, v parquet.Value) ([]byte, error) {
			return appendFloat(dst, float64(v.Float()), 32), nil
		}}, nil
	case parquet.Double:
		return leafType{Number, func(dst []byte, v parquet.Value) ([]byte, error) { return appendFloat(dst, v.Double(), 64), nil }}, nil
	case parquet.Int96:
		return text(func(v parquet.Value) (string, error) {
			return int96Time(v).Format("2006-01-02T15:04:05.999999999"), nil
		})
	}
	return text(bytesText)
}

// utf8Text returns a text. With the error that the text is not UTF-8, it returns what can be read
// of it.
func utf8Text(v parquet.Value) (string, error) {
	b := v.ByteArray()
	if !utf8.Valid(b) {
		return strings.ToValidUTF8(string(b), replacement), errors.New("the text is not UTF-8")
	}
	return string(b), nil
}

// bytesText returns a byte array whose type is not text. UTF-8 is returned unchanged, since old
// writers do not mark texts as such. Other bytes are written in Base64.
func bytesText(v parquet.Value) (string, error) {
	if s, err := utf8Text(v); err == nil {
		return s, nil
	}
	return base64.StdEncoding.EncodeToString(v.ByteArray()), nil
}

func appendJSON(dst []byte, v parquet.Value) ([]byte, error) {
	if text := v.ByteArray(); json.Valid(text) && utf8.Valid(text) {
		return append(dst, text...), nil
	}
	return nil, errors.New("the value is not JSON")
}

func integer(v parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

// isUnsigned reports whether a type has 64 bits without a sign.
func isUnsigned(t parquet.Type) bool {
	logical, ok := logicalType(t).(*format.IntType)
	return ok && logical.BitWidth == 64 && !logical.IsSigned
}

func appendUnsigned(dst []byte, v parquet.Value) ([]byte, error) {
	if v.Kind() == parquet.Int32 {
		return strconv.AppendUint(dst, uint64(v.Uint32()), 10), nil
	}
	return strconv.AppendUint(dst, v.Uint64(), 10), nil
}

// appendFloat appends a number. JSON has neither infinity nor NaN, so these become null.
func appendFloat(dst []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	verb := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		verb = 'e'
	}
	return strconv.AppendFloat(dst, f, verb, -1, bits)
}

// halfFloat converts a float16: a sign bit, 5 bits of exponent, and 10 bits of fraction.
func halfFloat(bits uint16) float64 {
	sign := 1.0
	if bits>>15 == 1 {
		sign = -1
	}
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		if fraction != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// maxScale is the largest number of digits after a decimal number's point.
const maxScale = 1000

// decimal formats a decimal number. scale is the number of digits after its point. A number whose
// scale is negative or more than maxScale is formatted without a point.
func decimal(v parquet.Value, scale int) string {
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32, parquet.Int64:
		n.SetInt64(integer(v))
	default: // a big-endian number in two's complement
		b := v.ByteArray()
		n.SetBytes(b)
		if len(b) > 0 && b[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	}
	if uint(scale) > maxScale {
		return n.String()
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return new(big.Rat).SetFrac(n, power).FloatString(scale)
}

func timeOf(v parquet.Value, unit format.TimeUnit) time.Time {
	n := integer(v)
	switch unit.Value.(type) {
	case *format.MilliSeconds:
		return time.UnixMilli(n).UTC()
	case *format.MicroSeconds:
		return time.UnixMicro(n).UTC()
	}
	return time.Unix(n/1e9, n%1e9).UTC()
}

// int96Time returns the time of the deprecated type INT96: nanoseconds of the day, followed by the
// Julian day number.
func int96Time(v parquet.Value) time.Time {
	const epoch = 2440588 // the Julian day of 1970-01-01
	i := v.Int96()
	nanoseconds := int64(i[1])<<32 | int64(i[0])
	return time.Unix((int64(i[2])-epoch)*86400, 0).Add(time.Duration(nanoseconds)).UTC()
}
