package table

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// replacement stands for bytes that are not text.
const replacement = "\uFFFD"

// CheckEncoding returns an error that lists similar names if no encoding has the given name. Names
// are those of the WHATWG's Encoding Standard, such as windows-1252 or latin1.
func CheckEncoding(name string) error {
	_, err := decoderOf(name)
	return err
}

// decoderOf returns the decoder of an encoding; nil for UTF-8.
func decoderOf(name string) (*encoding.Decoder, error) {
	e, err := htmlindex.Get(name)
	if err != nil {
		return nil, fmt.Errorf("encoding %q is not known: similar names are %s", name, english.WordSeries(similarEncodings(name), "and"))
	}
	if e == unicode.UTF8 {
		return nil, nil //nolint:nilnil // UTF-8 needs no decoder
	}
	return e.NewDecoder(), nil
}

// decode makes Read convert the content from an encoding to UTF-8. start is the beginning of the
// content. Parquet has its own encoding. Without an encoding, decode returns the error of
// refuseBinary.
func (f *file) decode(name string, start []byte) error {
	if name == "" {
		return refuseBinary(start)
	}
	d, err := decoderOf(name)
	if err != nil || d == nil {
		return err
	}
	if bytes.HasPrefix(start, []byte("PAR1")) {
		return nil
	}
	f.plain, f.encoding = nil, name
	f.in = bufio.NewReaderSize(d.Reader(f.in), bufferSize)
	return nil
}

type notTextError struct {
	error
	hint string
}

// EncodingHint returns what to do about the error of a record that is not text in the encoding of
// its file. It is empty for other errors.
func EncodingHint(err error) string {
	var notText notTextError
	errors.As(err, &notText)
	return notText.hint
}

// checkText returns an error with a hint if a text of the file is not valid in its encoding.
func (f *file) checkText(text []byte) error {
	switch {
	case f.encoding != "" && bytes.Contains(text, []byte(replacement)): // the decoder's replacement of invalid bytes
		return notTextError{fmt.Errorf("not %s", f.encoding), "give another --encoding"}
	case !utf8.Valid(text):
		return notTextError{errors.New("not UTF-8"), encodingHint(text)}
	}
	return nil
}

// encodingHint says how a text that is not UTF-8 may be read. Bytes that stand alone between ASCII
// are probably letters of a Western European encoding.
func encodingHint(text []byte) string {
	alone, together := 0, 0
	for i := 0; i < len(text); {
		n := 0
		for i+n < len(text) && text[i+n] >= utf8.RuneSelf {
			n++
		}
		if n == 1 {
			alone++
		}
		together += max(0, n-1)
		i += n + 1
	}
	names := "windows-1252"
	if together > alone {
		names = "windows-1251, shift_jis or gb18030"
	}
	return "if the file has another encoding, give --encoding, such as " + names
}

// encodings lists the names of encodings, for messages.
var encodings = []string{
	"utf-8", "utf-16le", "utf-16be", "latin1", "ascii", "cp1252",
	"windows-874", "windows-1250", "windows-1251", "windows-1252", "windows-1253", "windows-1254", "windows-1255", "windows-1256",
	"windows-1257", "windows-1258",
	"iso-8859-1", "iso-8859-2", "iso-8859-3", "iso-8859-4", "iso-8859-5", "iso-8859-6", "iso-8859-7", "iso-8859-8", "iso-8859-9",
	"iso-8859-10", "iso-8859-13", "iso-8859-14", "iso-8859-15", "iso-8859-16",
	"ibm866", "koi8-r", "koi8-u", "macintosh", "x-mac-cyrillic",
	"gbk", "gb18030", "gb2312", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr",
}

// maxSimilar is the number of names in the error of an unknown encoding.
const maxSimilar = 4

// similarEncodings returns the names of encodings that have the most pairs of neighbouring letters
// in common with a name.
func similarEncodings(name string) []string {
	wanted := letterPairs(name)
	score := func(s string) int {
		pairs := letterPairs(s)
		common := 0
		for pair := range pairs {
			if wanted[pair] {
				common++
			}
		}
		return 1000 * 2 * common / max(1, len(pairs)+len(wanted)) // Dice's coefficient
	}
	names := slices.Clone(encodings)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(score(b), score(a)) })
	return names[:maxSimilar]
}

// letterPairs returns the pairs of neighbouring letters and digits in a name, without its other
// characters.
func letterPairs(name string) map[string]bool {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
	pairs := map[string]bool{}
	for i := 1; i < len(plain); i++ {
		pairs[plain[i-1:i+1]] = true
	}
	return pairs
}
