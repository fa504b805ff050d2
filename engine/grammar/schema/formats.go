package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/grammar/pattern"
	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// format returns the spellings of a format. A format that the specification does not define
// constrains nothing, as in other validators. One that it defines and that cannot be kept is an
// error.
func (s *Schema) format(name string) (regex.Node, error) {
	if n, ok := s.formats[name]; ok {
		return n, nil
	}
	if unsupportedFormats[name] {
		return regex.Nothing, fmt.Errorf("the format %q cannot be kept; %s can", name, strings.Join(slices.Sorted(maps.Keys(formats)), ", "))
	}
	list, ok := formats[name]
	if !ok {
		return regex.All, nil
	}
	// All of list must match.
	nodes := make([]regex.Node, len(list))
	for i, text := range list {
		n, err := pattern.Whole(s.re, text, pattern.ECMA, Quoted{})
		if err != nil {
			return regex.Nothing, err
		}
		nodes[i] = n
	}
	n := s.re.And(nodes...)
	s.formats[name] = n
	return n, nil
}

// Patterns returns regular expressions of a format, in ECMAScript's syntax. A string has the format
// if each of them matches it as a whole. There are none for a format that constrains nothing or
// cannot be kept.
func Patterns(format string) []string { return formats[format] }

var unsupportedFormats = map[string]bool{"idn-email": true, "idn-hostname": true, "regex": true, "uri-template": true}

// formats are regular expressions of the formats, all of which must match. They are as strict as
// the RFC and as common validators: what they match is valid for all of them.
var formats = map[string][]string{
	"date":      {date},
	"time":      {clock},
	"date-time": {date + "T" + clock},
	"duration":  {`P(?:\d+W|(?:` + days + `)(?:T(?:` + hours + `))?|T(?:` + hours + `))`},
	"email":     {`[^@]{1,64}@[^@]{1,189}`, atom + `(?:\.` + atom + `)*@(?:` + label + `\.)+` + label},
	"hostname":  {`[^]{1,253}`, label + `(?:\.` + label + `)*`},
	"ipv4":      {ipv4},
	"ipv6":      {ipv6},
	"uuid":      {`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`},
	"uri":       {scheme + `:` + hierarchy(unreserved) + suffix(unreserved)},
	"iri":       {scheme + `:` + hierarchy(international) + suffix(international)},
	"uri-reference": {
		`(?:` + scheme + `:` + hierarchy(unreserved) + `|` + relative(unreserved) + `)` + suffix(unreserved),
	},
	"iri-reference": {
		`(?:` + scheme + `:` + hierarchy(international) + `|` + relative(international) + `)` + suffix(international),
	},
	"json-pointer":          {`(?:/(?:[^~/]|~[01])*)*`},
	"relative-json-pointer": {`(?:0|[1-9]\d*)(?:#|(?:/(?:[^~/]|~[01])*)*)`},
}

// The parts of RFC 3339. Months have their days, and 29 February is in leap years alone. Leap
// seconds are left out, as programs hardly read them.
const (
	leapYear = `(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)`
	date     = `(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)` +
		`|02-(?:0[1-9]|1\d|2[0-8]))|` + leapYear + `-02-29)`
	clock = `(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)`
	days  = `\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D`
	hours = `\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S`
)

// The parts of RFC 5321 and RFC 1123.
const (
	atom  = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
	label = `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`
)

// The parts of RFC 3986 and RFC 3987.
const (
	octet         = `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	ipv4          = octet + `(?:\.` + octet + `){3}`
	h16           = `[0-9a-fA-F]{1,4}`
	ls32          = `(?:` + h16 + `:` + h16 + `|` + ipv4 + `)`
	scheme        = `[a-zA-Z][a-zA-Z0-9+.-]*`
	escape        = `%[0-9a-fA-F]{2}`
	unreserved    = `a-zA-Z0-9._~\-`
	international = unreserved + `\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF`
	delimiters    = `!$&'()*+,;=`
)

const ipv6 = `(?:(?:` + h16 + `:){6}` + ls32 +
	`|::(?:` + h16 + `:){5}` + ls32 +
	`|(?:` + h16 + `)?::(?:` + h16 + `:){4}` + ls32 +
	`|(?:(?:` + h16 + `:){0,1}` + h16 + `)?::(?:` + h16 + `:){3}` + ls32 +
	`|(?:(?:` + h16 + `:){0,2}` + h16 + `)?::(?:` + h16 + `:){2}` + ls32 +
	`|(?:(?:` + h16 + `:){0,3}` + h16 + `)?::` + h16 + `:` + ls32 +
	`|(?:(?:` + h16 + `:){0,4}` + h16 + `)?::` + ls32 +
	`|(?:(?:` + h16 + `:){0,5}` + h16 + `)?::` + h16 +
	`|(?:(?:` + h16 + `:){0,6}` + h16 + `)?::)`

func characters(letters, more string) string {
	return `(?:[` + letters + delimiters + more + `]|` + escape + `)`
}

// hierarchy returns the part of a URI between the scheme and the query.
func hierarchy(letters string) string {
	segment := characters(letters, ":@")
	return `(?://` + authority(letters) + `(?:/` + segment + `*)*` + // with an authority
		`|/(?:` + segment + `+(?:/` + segment + `*)*)?` +
		`|` + segment + `+(?:/` + segment + `*)*)`
}

func authority(letters string) string {
	// A name of a host has no escapes: many readers refuse them there.
	return `(?:` + characters(letters, ":") + `*@)?(?:\[` + ipv6 + `\]|[` + letters + delimiters + `]*)(?::\d{1,5})?`
}

func relative(letters string) string {
	segment := characters(letters, ":@")
	first := characters(letters, "@")
	return `(?://` + authority(letters) + `(?:/` + segment + `*)*` +
		`|/(?:` + segment + `+(?:/` + segment + `*)*)?` +
		`|` + first + `+(?:/` + segment + `*)*|)`
}

func suffix(letters string) string {
	query := characters(letters, ":@/?")
	return `(?:\?` + query + `*)?(?:#` + query + `*)?`
}
