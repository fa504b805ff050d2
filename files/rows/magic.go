package rows

import (
	"bytes"
	"fmt"
)

// skipStart removes a UTF-8 byte order mark from part, the first bytes of a file. err is the error of reading part. If the file is not
// UTF-8 text, for example compressed, skipStart returns an error that says so; otherwise it returns err.
func skipStart(part []byte, err error) ([]byte, error) {
	for _, other := range []struct{ start, name, instead string }{
		{"\xFF\xFE", "UTF-16", "convert it, for example with iconv -f UTF-16 -t UTF-8"},
		{"\xFE\xFF", "UTF-16", "convert it, for example with iconv -f UTF-16 -t UTF-8"},
		{"\x1F\x8B", "compressed (gzip)", "decompress it"},
		{"\x28\xB5\x2F\xFD", "compressed (zstd)", "decompress it"},
		{"\xFD7zXZ\x00", "compressed (xz)", "decompress it"},
		{"PK\x03\x04", "a zip archive", "extract the file in it"},
		{"PAR1\x15", "a Parquet file", "convert it to JSON, one object per line"},
	} {
		if bytes.HasPrefix(part, []byte(other.start)) {
			return nil, fmt.Errorf("the input is %s: %s", other.name, other.instead)
		}
	}
	return bytes.TrimPrefix(part, []byte{0xEF, 0xBB, 0xBF}), err
}
