package export

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/ingot-run/ingot/files/table"
)

// Filter selects answers. The zero Filter selects all.
type Filter struct {
	FinishReasons []string         // finish reasons of selected answers; empty selects all
	Match         []*regexp.Regexp // expressions that all match the response
	NotMatch      []*regexp.Regexp // expressions that do not match the response
	MinChars      int              // minimum length of the response in characters
	MaxChars      int              // maximum length of the response in characters; 0 for no maximum
	MinTokens     int              // minimum number of generated tokens; answers with an unknown number are selected
	MaxTokens     int              // maximum number of generated tokens; 0 for no maximum
	// Unique lists columns of the table. An answer is dropped if it equals an earlier answer of the
	// table in all of these columns. Texts are compared in Unicode's NFC form, without white space
	// around them, and with each run of white space as one space.
	Unique []string
}

// Reason is the reason why an answer was left out of a table.
type Reason string

// The reasons, in the order in which they are checked.
const (
	Failed      Reason = "failed" // the row failed, and a filter or a file of failed rows is given
	OtherFinish Reason = "finish reason"
	Unmatched   Reason = "no match"
	Matched     Reason = "match"
	TooShort    Reason = "too short"
	TooLong     Reason = "too long"
	Duplicate   Reason = "duplicate"
)

// Reasons lists all reasons in the order in which they are checked.
var Reasons = []Reason{Failed, OtherFinish, Unmatched, Matched, TooShort, TooLong, Duplicate}

// IsSet reports whether the filter can drop an answer.
func (f *Filter) IsSet() bool {
	return len(f.FinishReasons)+len(f.Match)+len(f.NotMatch)+len(f.Unique)+f.MinChars+f.MaxChars+f.MinTokens+f.MaxTokens > 0
}

// drops returns the reason to drop an answer, or an empty Reason to keep it. It does not look for
// duplicates.
func (f *Filter) drops(s *sample) (Reason, error) {
	if s.failure != "" {
		if f.IsSet() {
			return Failed, nil
		}
		return "", nil
	}
	if len(f.FinishReasons) > 0 && !slices.Contains(f.FinishReasons, s.finishReason) {
		return OtherFinish, nil
	}
	if len(f.Match)+len(f.NotMatch)+f.MinChars+f.MaxChars > 0 {
		var response string
		if err := json.Unmarshal(s.response, &response); err != nil {
			return "", fmt.Errorf("its response is not a text: %w", err)
		}
		if reason := f.dropsText(response); reason != "" {
			return reason, nil
		}
	}
	switch {
	case s.completion >= 0 && s.completion < f.MinTokens:
		return TooShort, nil
	case f.MaxTokens > 0 && s.completion > f.MaxTokens:
		return TooLong, nil
	}
	return "", nil
}

func (f *Filter) dropsText(response string) Reason {
	for _, r := range f.Match {
		if !r.MatchString(response) {
			return Unmatched
		}
	}
	for _, r := range f.NotMatch {
		if r.MatchString(response) {
			return Matched
		}
	}
	switch n := utf8.RuneCountInString(response); {
	case n < f.MinChars:
		return TooShort
	case f.MaxChars > 0 && n > f.MaxChars:
		return TooLong
	}
	return ""
}

// unique finds records that equal an earlier record in all of the given columns. It stores 64-bit
// hashes, about 20 bytes of memory per record. In a million records, the probability that any
// record is mistaken for a duplicate is below 1e-7.
type unique struct {
	columns []string
	seen    map[uint64]struct{}
}

// newUnique returns a unique that compares the given columns of the table. The error names a column
// that is not in all.
func newUnique(columns []string, all []table.Column) (*unique, error) {
	for _, name := range columns {
		if !slices.Contains(table.Names(all), name) {
			return nil, fmt.Errorf("the table has no column %q: its columns are %s", name, table.Quoted(table.Names(all)))
		}
	}
	return &unique{columns: columns, seen: map[uint64]struct{}{}}, nil
}

// isDuplicate adds a record, and reports whether an earlier one has the same values in the columns.
// Without columns it returns false.
func (u *unique) isDuplicate(fields []table.Field) bool {
	if len(u.columns) == 0 {
		return false
	}
	h := sha256.New()
	for _, name := range u.columns {
		var value []byte
		if i := slices.IndexFunc(fields, func(f table.Field) bool { return f.Name == name }); i >= 0 {
			value = normal(fields[i].Value)
		}
		h.Write(binary.AppendUvarint(nil, uint64(len(value))))
		h.Write(value)
	}
	key := binary.BigEndian.Uint64(h.Sum(nil))
	_, before := u.seen[key]
	u.seen[key] = struct{}{}
	return before
}

// normal returns a value in the form in which isDuplicate compares it. It normalises the Unicode
// composition and the white space of strings. Other values are unchanged.
func normal(value json.RawMessage) []byte {
	var s string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return value
	}
	return []byte(`"` + strings.Join(strings.Fields(norm.NFC.String(s)), " "))
}
