package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar/schema"
	"github.com/ingot-run/ingot/internal/ordered"
)

var errNoObject = errors.New("the schema is not an object")

// argumentSchema is the schema that the arguments of a constrained call keep.
type argumentSchema struct {
	*argumentTypes
	strict bool
}

// anyArguments is the schema of a tool whose own schema cannot be kept in full.
const anyArguments = `{"type":"object"}`

// newArgumentSchema returns the schema of a tool. If it cannot be kept in full, that is an error
// for a strict tool.
func newArgumentSchema(t *generation.Tool, check func(string) error) (*argumentSchema, error) {
	s, err := parseSchema(t.Parameters)
	if err != nil {
		return nil, err
	}
	kind := s.kindOf(s.root, 0)
	if kind.others&objects == 0 {
		return nil, errors.New("the arguments are not an object")
	}
	if _, ok := s.root.Get("type"); !ok || kind.others != objects || kind.text {
		s.root.Set("type", "object")
	}
	a := &argumentSchema{argumentTypes: s, strict: t.Strict}
	if err := check(a.text()); err != nil {
		if t.Strict {
			return nil, err
		}
		a.argumentTypes, _ = parseSchema(anyArguments)
	}
	return a, nil
}

func (a *argumentSchema) text() string { return string(ordered.AppendJSON(nil, a.root)) }

// pairStyle is how a format writes arguments as pairs.
type pairStyle struct {
	key, value, end string // texts before the key, before the value and after it
	closing         string // part of end that no value contains
}

func glmGrammar(newline string) func(*writer) {
	style := pairStyle{key: "<arg_key>", value: "</arg_key>" + newline + "<arg_value>", end: "</arg_value>" + newline, closing: "</arg_value>"}
	return func(g *writer) {
		g.answer(openMark, newline)
		g.alternatives(func(i int, name string) string {
			return g.text(openMark+name+newline) + " " + g.pairs(i, style) + " " + g.text(closeMark)
		})
	}
}

func coderGrammar(g *writer) {
	style := pairStyle{key: "<parameter=", value: ">\n", end: "\n</parameter>\n", closing: "</parameter>"}
	g.answer(openMark, "\n")
	g.alternatives(func(i int, name string) string {
		return g.text(openMark+"\n<function="+name+">\n") + " " + g.pairs(i, style) + " " + g.text("</function>\n"+closeMark)
	})
}

// annotations are keywords that do not restrict values.
var annotations = []string{
	"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id", "$defs", "definitions",
}

// pairs returns the symbols of a tool's arguments as pairs, in the order of the schema.
func (g *writer) pairs(i int, style pairStyle) string {
	a := g.arguments[i]
	a.known(g, i, a.root, "type", "properties", "required", "additionalProperties")
	list, _ := a.root.Get("required")
	required, _ := list.([]ordered.Value)
	var symbols []string
	names := []string{}
	if a.properties != nil {
		names = a.properties.Keys()
	}
	for _, r := range required {
		if name, ok := r.(string); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for n, name := range names {
		var property ordered.Value
		if a.properties != nil {
			property, _ = a.properties.Get(name)
		}
		pair := fmt.Sprintf("pair_%d_%d", i, n)
		g.rule(pair, "%s %s %s", g.text(style.key+name+style.value), g.value(i, pair, property, style), g.text(style.end))
		if !slices.Contains(required, ordered.Value(name)) {
			pair += "?"
		}
		symbols = append(symbols, pair)
	}
	if others, _ := a.root.Get("additionalProperties"); len(names) == 0 && a.kindOf(others, 0) != (kind{}) {
		pair := fmt.Sprintf("pair_%d", i)
		g.rule(pair, `%s /[^<>\n]{1,64}/ %s %s %s`, g.text(style.key), g.text(style.value), g.value(i, pair, others, style), g.text(style.end))
		symbols = append(symbols, pair+"*")
	}
	return strings.Join(symbols, " ")
}

// value returns the symbols of a value of a schema: a string without quotes and escapes, or JSON.
func (g *writer) value(i int, pair string, v ordered.Value, style pairStyle) string {
	a := g.arguments[i]
	var choices []string
	k := a.kindOf(v, 0)
	if k.text {
		terminal := strings.ToUpper(pair)
		terminals, empty := a.strings(g, i, v, style.closing, 0)
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
		g.rule(name, "%%json %s", a.document(v))
		choices = append(choices, name)
	}
	if len(choices) == 0 {
		g.fail(i, "the schema of an argument allows no value")
	}
	return optional(choices)
}

// optional returns the symbols of one of several choices, of which one may be empty.
func optional(choices []string) string {
	some := slices.DeleteFunc(choices, func(c string) bool { return c == "" })
	all := "(" + strings.Join(some, " | ") + ")"
	if len(some) < len(choices) {
		all += "?"
	}
	return all
}

func (g *writer) fail(i int, format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(`"tools" has a function %q whose arguments cannot be constrained in the format of this model (%s): %s`,
			g.tools[i].Name, g.format.Name, fmt.Sprintf(format, args...))
	}
}

// known fails for a strict tool if a schema has a keyword that is neither an annotation nor one of
// the given ones.
func (a *argumentSchema) known(g *writer, i int, o *ordered.Object, keywords ...string) {
	if !a.strict {
		return
	}
	for _, k := range o.Keys() {
		if !slices.Contains(annotations, k) && !slices.Contains(keywords, k) {
			g.fail(i, "the keyword %q is not supported for a string without quotes, or for the arguments as a whole", k)
		}
	}
}

// document returns a part of the schema as a schema of its own.
func (a *argumentSchema) document(v ordered.Value) string {
	o, ok := v.(*ordered.Object)
	if !ok {
		return "{}"
	}
	o = o.Clone()
	for _, key := range []string{"$defs", "definitions"} {
		if defs, ok := a.root.Get(key); ok {
			o.Set(key, defs)
		}
	}
	return string(ordered.AppendJSON(nil, o))
}

// strings returns terminals for the strings of a schema that are not empty, and whether it allows
// the empty string.
func (a *argumentSchema) strings(g *writer, i int, v ordered.Value, closing string, depth int) (terminals []string, empty bool) {
	o, ok := v.(*ordered.Object)
	if !ok || depth > maxNesting {
		return []string{without(closing)}, true
	}
	if ref, ok := o.Get("$ref"); ok {
		return a.strings(g, i, a.resolve(ref), closing, depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		branches, ok := member(o, key).([]ordered.Value)
		if !ok {
			continue
		}
		for _, b := range branches {
			if a.kindOf(b, 0).text {
				some, none := a.strings(g, i, b, closing, depth+1)
				terminals, empty = append(terminals, some...), empty || none
			}
		}
		return terminals, empty
	}
	values, _ := member(o, "enum").([]ordered.Value)
	if c, ok := o.Get("const"); ok {
		values = []ordered.Value{c}
	}
	for _, v := range values {
		if s, _ := v.(string); s != "" {
			terminals = append(terminals, quote(s))
		}
		empty = empty || v == ""
	}
	if values == nil {
		a.known(g, i, o, "type", "minLength", "maxLength", "pattern", "format")
		return restricted(o, closing)
	}
	return terminals, empty
}

// restricted returns a terminal for strings with the lengths, pattern and format of a schema.
func restricted(o *ordered.Object, closing string) (terminals []string, empty bool) {
	low, _ := member(o, "minLength").(int64)
	high, bounded := member(o, "maxLength").(int64)
	var all []string
	if pattern, ok := member(o, "pattern").(string); ok {
		all = append(all, "/(?s:.*)(?:"+python(pattern)+")(?s:.*)/")
	}
	if format, ok := member(o, "format").(string); ok {
		for _, pattern := range schema.Patterns(format) {
			all = append(all, "/(?:"+python(pattern)+")/")
		}
	}
	if all == nil {
		if empty = low <= 0; bounded && high <= 0 {
			return nil, empty
		}
		if low <= 1 && !bounded {
			return []string{without(closing)}, empty
		}
		low = max(low, 1)
	}
	most := ""
	if bounded {
		most = fmt.Sprint(high)
	}
	all = append(all, fmt.Sprintf("/(?s:.{%d,%s})/", max(low, 0), most), excluding(closing))
	return []string{strings.Join(all, " & ")}, empty
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

// withoutStrings returns the part of a schema that allows no strings.
func (a *argumentSchema) withoutStrings(v ordered.Value, depth int) ordered.Value {
	o, ok := v.(*ordered.Object)
	if !ok || depth > maxNesting {
		o = ordered.NewObject()
	}
	if ref, ok := o.Get("$ref"); ok {
		return a.withoutStrings(a.resolve(ref), depth+1)
	}
	out := ordered.NewObject()
	typed := false
	for key, value := range o.All() {
		list, _ := value.([]ordered.Value)
		switch key {
		case "type":
			typed = true
			if list != nil {
				value = slices.DeleteFunc(slices.Clone(list), func(t ordered.Value) bool { return t == "string" })
			}
		case "enum":
			typed = true
			value = slices.DeleteFunc(slices.Clone(list), func(v ordered.Value) bool { return kindOfValue(v).text })
		case "anyOf", "oneOf":
			typed = true
			branches := []ordered.Value{}
			for _, b := range list {
				if a.kindOf(b, 0).others != 0 {
					branches = append(branches, a.withoutStrings(b, depth+1))
				}
			}
			value = branches
		}
		out.Set(key, value)
	}
	if !typed {
		out.Set("type", []ordered.Value{"null", "boolean", "number", "array", "object"})
	}
	return out
}

func member(o *ordered.Object, key string) ordered.Value {
	v, _ := o.Get(key)
	return v
}
