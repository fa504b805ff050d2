package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
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
	keyEnd          string // part of value that no key contains
	closing         string // part of end that no string contains
}

func glmGrammar(newline string) func(*writer) {
	style := pairStyle{key: "<arg_key>", value: "</arg_key>" + newline + "<arg_value>", end: "</arg_value>" + newline, keyEnd: "</arg_key>", closing: "</arg_value>"}
	return func(g *writer) {
		g.answer(openMark, newline)
		g.alternatives(func(i int, name string) string {
			return g.text(openMark+name+newline) + " " + g.pairs(i, style) + " " + g.text(closeMark)
		})
	}
}

func coderGrammar(g *writer) {
	style := pairStyle{key: "<parameter=", value: ">\n", end: "\n</parameter>\n", keyEnd: ">", closing: "</parameter>"}
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
	a.known(g, i, a.root, "", "type", "properties", "required", "additionalProperties")
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
		property, path := a.property(name)
		if len(name) > maxKey || strings.Contains(name, style.keyEnd) || slices.ContainsFunc(g.format.marks, func(m string) bool { return strings.Contains(name, m) }) {
			g.fail(i, "%s: the name is longer than %d bytes, or has one of the marks %s of this form", path, maxKey, strings.Join(append(slices.Clone(g.format.marks), style.keyEnd), " "))
		}
		pair := fmt.Sprintf("pair_%d_%d", i, n)
		g.rule(pair, "%s %s %s", g.text(style.key+name+style.value), g.value(i, pair, property, path, style), g.text(style.end))
		if !slices.Contains(required, ordered.Value(name)) {
			pair += "?"
		}
		symbols = append(symbols, pair)
	}
	if others, _ := a.root.Get("additionalProperties"); len(names) == 0 && a.kindOf(others, 0) != (kind{}) {
		pair := fmt.Sprintf("pair_%d", i)
		g.rule(pair, `%s /[^<>\n]{1,64}/ %s %s %s`, g.text(style.key), g.text(style.value), g.value(i, pair, others, "/additionalProperties", style), g.text(style.end))
		symbols = append(symbols, pair+"*")
	}
	return strings.Join(symbols, " ")
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
// the given ones. path is the JSON pointer of the schema.
func (a *argumentSchema) known(g *writer, i int, o *ordered.Object, path string, keywords ...string) {
	for _, k := range o.Keys() {
		if !slices.Contains(annotations, k) && !slices.Contains(keywords, k) {
			a.refuse(g, i, path+pointer(k), "the keyword is not supported here, for a string without quotes or for the arguments as a whole")
		}
	}
}

// refuse fails for a strict tool.
func (a *argumentSchema) refuse(g *writer, i int, path, format string, args ...any) {
	if a.strict {
		g.fail(i, "%s: %s", path, fmt.Sprintf(format, args...))
	}
}

// pointer returns the part of a JSON pointer for a key.
func pointer(key string) string { return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// document returns a part of the schema as a schema of its own.
func (a *argumentSchema) document(g *writer, i int, v ordered.Value, path string) string {
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
	a.checkReferences(g, i, o, path)
	return string(ordered.AppendJSON(nil, o))
}

// checkReferences refuses references that mean something else in a part of the schema.
func (a *argumentSchema) checkReferences(g *writer, i int, v ordered.Value, path string) {
	switch v := v.(type) {
	case []ordered.Value:
		for n, item := range v {
			a.checkReferences(g, i, item, fmt.Sprintf("%s/%d", path, n))
		}
	case *ordered.Object:
		for key, value := range v.All() {
			if ref, ok := value.(string); ok && key == "$ref" && !strings.HasPrefix(ref, "#/$defs/") && !strings.HasPrefix(ref, "#/definitions/") {
				a.refuse(g, i, path+"/$ref", "only references to $defs and definitions are supported")
			}
			a.checkReferences(g, i, value, path+pointer(key))
		}
	}
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
