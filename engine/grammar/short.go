package grammar

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/grammar/source"
)

// ShortSchema returns the JSON Schema of a short form, a list of an object's properties:
//
//	label:positive|negative, score:number, reason:string(200)
//
// A property is a name, a question mark if it may be missing, and after a colon what its value is:
// types (string, number, integer, boolean, null, any, object), formats of strings (date, time,
// date-time, duration, email, hostname, ipv4, ipv6, uuid, uri) and values, with | between
// alternatives. string(N) is a string of at most N characters. A value is a number, true, false or
// a text; a text that has one of , : | ? { } [ ] or that is the name of a type is in quotes. [] at
// the end makes a list of such values. Braces have an object's properties. Without a colon, a value
// is a string.
func ShortSchema(text string) (string, error) {
	p := &shortParser{text: text}
	schema, err := p.properties(0)
	if err == nil && p.more() {
		what := "a comma"
		if p.text[p.pos] == '|' {
			what += " or, before the values of a property, a colon"
		}
		err = p.fail("found %q where %s is expected", p.text[p.pos:p.pos+1], what)
	}
	if err != nil {
		return "", err
	}
	return schema, nil
}

// boundedString is the type of strings with a maximum length.
var boundedString = regexp.MustCompile(`^string\(([1-9]\d{0,6})\)$`)

// typeWithLimit matches what was meant as a type with a limit, rather than as a value.
var typeWithLimit = regexp.MustCompile(`^(string|number|integer|boolean|null|object|any)\s*\(`)

type shortParser struct {
	text string
	pos  int
}

const (
	maxShortText  = 64 << 10
	maxShortDepth = 20
)

func (p *shortParser) fail(format string, args ...any) error {
	return &Error{Message: fmt.Sprintf("schema %s: offset %d: %s", source.Quote(p.text), p.pos, fmt.Sprintf(format, args...))}
}

func (p *shortParser) more() bool {
	p.pos += len(p.text[p.pos:]) - len(strings.TrimLeft(p.text[p.pos:], " \t\r\n"))
	return p.pos < len(p.text)
}

func (p *shortParser) take(s string) bool {
	if p.more() && strings.HasPrefix(p.text[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

func (p *shortParser) properties(depth int) (string, error) {
	switch {
	case len(p.text) > maxShortText:
		return "", p.fail("it has more than %d bytes", maxShortText)
	case depth > maxShortDepth:
		return "", p.fail("braces are nested more than %d deep", maxShortDepth)
	}
	var properties, required []string
	names := map[string]bool{}
	for {
		name, quoted, err := p.word("a name")
		if err != nil {
			return "", err
		}
		if names[name] {
			return "", p.fail("the name %q occurs twice", name)
		}
		names[name] = true
		if !quoted && strings.ContainsAny(name, "|") {
			return "", p.fail("%q is not a name", name)
		}
		if !p.take("?") {
			required = append(required, quoteJSON(name))
		}
		schema := `{"type":"string"}`
		if p.take(":") {
			if schema, err = p.value(depth); err != nil {
				return "", err
			}
		}
		properties = append(properties, quoteJSON(name)+":"+schema)
		if !p.take(",") {
			break
		}
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` +
		strings.Join(required, ",") + `],"additionalProperties":false}`, nil
}

// value reads alternatives and whether there is a list of them.
func (p *shortParser) value(depth int) (string, error) {
	var values, schemas []string
	for {
		value, schema, err := p.alternative(depth)
		switch {
		case err != nil:
			return "", err
		case schema != "":
			schemas = append(schemas, schema)
		default:
			values = append(values, value)
		}
		if !p.take("|") {
			break
		}
	}
	if len(values) > 0 {
		schemas = append([]string{`{"enum":[` + strings.Join(values, ",") + `]}`}, schemas...)
	}
	schema := schemas[0]
	if len(schemas) > 1 {
		schema = `{"anyOf":[` + strings.Join(schemas, ",") + `]}`
	}
	for lists := 0; p.take("[]"); lists++ {
		if lists > maxShortDepth {
			return "", p.fail("lists are nested more than %d deep", maxShortDepth)
		}
		schema = `{"type":"array","items":` + schema + `}`
	}
	return schema, nil
}

// alternative reads a value, as JSON, or the schema of a type, a format or an object.
func (p *shortParser) alternative(depth int) (value, schema string, err error) {
	if p.take("{") {
		if schema, err = p.properties(depth + 1); err == nil && !p.take("}") {
			err = p.fail("a closing brace is expected")
		}
		return "", schema, err
	}
	word, quoted, err := p.word("a type or a value")
	switch {
	case err != nil:
		return "", "", err
	case quoted:
		return quoteJSON(word), "", nil
	}
	switch word {
	case "string", "number", "integer", "boolean", "null", "object":
		return "", `{"type":"` + word + `"}`, nil
	case "any":
		return "", `{}`, nil
	case "date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri":
		return "", `{"type":"string","format":"` + word + `"}`, nil
	}
	if m := boundedString.FindStringSubmatch(word); m != nil {
		return "", `{"type":"string","maxLength":` + m[1] + `}`, nil
	}
	if typeWithLimit.MatchString(word) {
		return "", "", p.fail("%q is not a type, since only strings have a limit, from 1 to 9999999, as in string(200): put it in quotes if it is a value", word)
	}
	if json.Valid([]byte(word)) { // a number, true or false
		return word, "", nil
	}
	return quoteJSON(word), "", nil
}

// word reads a word or a text in quotes.
func (p *shortParser) word(what string) (text string, quoted bool, err error) {
	if p.take(`"`) {
		start := p.pos - 1
		for i := p.pos; i < len(p.text); i++ {
			switch p.text[i] {
			case '\\':
				i++
			case '"':
				p.pos = i + 1
				if json.Unmarshal([]byte(p.text[start:p.pos]), &text) != nil {
					return "", false, p.fail("%s is not a JSON string", p.text[start:p.pos])
				}
				return text, true, nil
			}
		}
		return "", false, p.fail("a quote is not closed")
	}
	p.more()
	end := strings.IndexFunc(p.text[p.pos:], func(r rune) bool { return strings.ContainsRune(",:|?{}[]\"", r) || r == utf8.RuneError })
	if end < 0 {
		end = len(p.text) - p.pos
	}
	text = strings.TrimRight(p.text[p.pos:p.pos+end], " \t\r\n")
	if text == "" {
		if p.more() {
			return "", false, p.fail("found %q where %s is expected", p.text[p.pos:p.pos+1], what)
		}
		return "", false, p.fail("it ends where %s is expected", what)
	}
	p.pos += end
	return text, false, nil
}

func quoteJSON(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return `""`
	}
	return strings.TrimSpace(b.String())
}
