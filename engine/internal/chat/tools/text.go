package tools

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/grammar/schema"
	"github.com/ingot-run/ingot/internal/ordered"
)

// value returns the symbols of a value of a schema: a string without quotes and escapes, or JSON.
// path is the JSON pointer of the schema.
func (g *writer) value(i int, pair string, v ordered.Value, path string, style pairStyle) string {
	a := g.arguments[i]
	var choices []string
	k := a.kindOf(v, 0)
	if k.text {
		terminal := strings.ToUpper(pair)
		t := &plainText{writer: g, schema: a, tool: i, closing: style.closing, kind: k}
		terminals, empty := t.strings(v, path, 0)
		if len(terminals) > 0 {
			g.rule(terminal, "%s", strings.Join(terminals, " | "))
			choices = append(choices, terminal)
		}
		if empty {
			choices = append(choices, "")
		}
	}
	if k.others != 0 {
		name := "json_" + pair
		if k.text {
			v = a.withoutStrings(v, 0)
		}
		g.rule(name, "%%json %s", a.document(g, i, v, path))
		choices = append(choices, name)
	}
	if len(choices) == 0 {
		g.fail(i, "%s: the schema allows no value", path)
	}
	return optional(choices)
}

// plainText writes the terminals of a value that can be a string, which has neither quotes nor
// escapes.
type plainText struct {
	*writer
	schema  *argumentSchema
	tool    int
	closing string // no string contains it
	kind    kind   // of the value
}

// strings returns terminals for the strings of a schema that are not empty, and whether it allows
// the empty string. Keywords that it does not keep are an error for a strict tool.
func (t *plainText) strings(v ordered.Value, path string, depth int) (terminals []string, empty bool) {
	a, i := t.schema, t.tool
	o, ok := v.(*ordered.Object)
	if depth > maxNesting {
		a.refuse(t.writer, i, path, "more than %d schemas refer to each other", maxNesting)
	}
	if !ok || depth > maxNesting {
		return []string{t.any()}, true
	}
	if ref, ok := o.Get("$ref"); ok {
		a.known(t.writer, i, o, path, "$ref")
		to := a.resolve(ref)
		if to == nil {
			a.refuse(t.writer, i, path+"/$ref", "the reference points to no schema of this document")
		}
		return t.strings(to, path+"/$ref", depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if branches, ok := member(o, key).([]ordered.Value); ok {
			a.known(t.writer, i, o, path, key, "type")
			return t.branches(branches, path+"/"+key, key == "oneOf", depth)
		}
	}
	if values, key := given(o); key != "" {
		a.known(t.writer, i, o, path, key, "type", "minLength", "maxLength")
		return t.values(o, values, path+"/"+key)
	}
	a.known(t.writer, i, o, path, "type", "minLength", "maxLength", "pattern", "format")
	return t.restricted(o)
}

// branches returns the strings of one of several schemas.
func (t *plainText) branches(list []ordered.Value, path string, one bool, depth int) (terminals []string, empty bool) {
	texts := 0
	for n, b := range list {
		if !t.schema.kindOf(b, 0).text {
			continue
		}
		if texts++; one && texts > 1 {
			t.schema.refuse(t.writer, t.tool, path, "a string may match several of the schemas: use anyOf")
		}
		some, none := t.strings(b, fmt.Sprintf("%s/%d", path, n), depth+1)
		terminals, empty = append(terminals, some...), empty || none
	}
	return terminals, empty
}

// given returns the values that a schema lists, and the keyword; empty if it lists none.
func given(o *ordered.Object) (values []ordered.Value, keyword string) {
	if c, ok := o.Get("const"); ok {
		return []ordered.Value{c}, "const"
	}
	if values, ok := member(o, "enum").([]ordered.Value); ok {
		return values, "enum"
	}
	return nil, ""
}

// values returns those listed strings that have the lengths of a schema.
func (t *plainText) values(o *ordered.Object, values []ordered.Value, path string) (terminals []string, empty bool) {
	low, high := lengths(o)
	for _, v := range values {
		s, ok := v.(string)
		n := int64(utf8.RuneCountInString(s))
		switch {
		case !ok || n < low || n > high:
		case s == "":
			empty = true
		case strings.Contains(s, t.closing):
			t.schema.refuse(t.writer, t.tool, path, "%.60q contains %s, which ends a value in this form", s, t.closing)
		case t.kind.json(s) != quote(s):
			t.schema.refuse(t.writer, t.tool, path, "without quotes, the string %.60q looks like another value that the schema allows", s)
		default:
			terminals = append(terminals, quote(s))
		}
	}
	return terminals, empty
}

// restricted returns a terminal for strings with the lengths, pattern and format of a schema.
func (t *plainText) restricted(o *ordered.Object) (terminals []string, empty bool) {
	low, high := lengths(o)
	if high < low {
		return nil, false
	}
	var all []string
	if pattern, ok := member(o, "pattern").(string); ok {
		all = append(all, "/(?s:.*)(?:"+python(pattern)+")(?s:.*)/")
	}
	if format, ok := member(o, "format").(string); ok {
		for _, pattern := range schema.Patterns(format) {
			all = append(all, "/(?:"+python(pattern)+")/")
		}
	}
	empty = low == 0 && all == nil
	if high == 0 {
		return nil, empty
	}
	if low <= 1 && high == math.MaxInt64 && all == nil {
		return []string{t.any()}, empty
	}
	most := ""
	if high < math.MaxInt64 {
		most = fmt.Sprint(high)
	}
	all = append(all, fmt.Sprintf("/(?s:.{%d,%s})/", max(low, 1), most), t.readAsString())
	return []string{strings.Join(all, " & ")}, empty
}

// any returns a terminal for any string that is not empty.
func (t *plainText) any() string { return "/(?s:.+)/ & " + t.readAsString() }

// readAsString returns a terminal for the texts that are read back as the same string: those that
// do not end the value, and do not look like another value that the schema allows. See kind.json.
func (t *plainText) readAsString() string {
	var others []string
	for _, o := range []struct {
		types types
		regex string
	}{
		{nulls, "null|None"},
		{booleans, "true|false|True|False"},
		{numbers, `-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+\-]?[0-9]+)?`},
		{arrays, `\[(?s:.*)`},
		{objects, `\{(?s:.*)`},
	} {
		if t.kind.others&o.types != 0 {
			others = append(others, o.regex)
		}
	}
	text := excluding(t.closing)
	if others != nil {
		text += fmt.Sprintf(` & ~/[ \t\r\n]*(?:%s)[ \t\r\n]*/`, strings.Join(others, "|"))
	}
	return text
}

// lengths returns the bounds of a string's length in characters.
func lengths(o *ordered.Object) (low, high int64) {
	low, high = 0, math.MaxInt64
	if n, ok := wholeNumber(member(o, "minLength")); ok {
		low = max(n, 0)
	}
	if n, ok := wholeNumber(member(o, "maxLength")); ok {
		high = n
	}
	return low, high
}

// wholeNumber returns a number of a schema, which may be written as 5.0.
func wholeNumber(v ordered.Value) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		if v >= math.MaxInt64 {
			return math.MaxInt64, true
		}
		return int64(v), v >= 0
	case nil:
		return 0, false
	}
	return math.MaxInt64, true // an integer of more than 64 bits
}

// python returns a regular expression of ECMAScript in Python's syntax, for use between slashes.
func python(pattern string) string {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(pattern[i-1 : i+1])
		case c == '/' || c == '[' && inClass:
			b.WriteString(`\` + string(c))
		case c == '\n':
			b.WriteString(`\n`)
		case inClass:
			inClass = c != ']'
			b.WriteByte(c)
		case strings.HasPrefix(pattern[i:], "[^]"):
			i += 2
			b.WriteString("(?s:.)")
		case c == '[':
			inClass = true
			b.WriteByte(c)
		case c == '^':
			b.WriteString(`\A`)
		case c == '$':
			b.WriteString(`\z`)
		case c == '.':
			b.WriteString(`[^\n\r\u2028\u2029]`)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
