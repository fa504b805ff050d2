package tools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

func gemmaGrammar(g *writer) {
	g.answer(gemmaOpen, "")
	g.alternatives(func(i int, name string) string {
		a := g.arguments[i]
		a.known(g, i, a.root, "", "type", "properties", "required", "additionalProperties")
		n := &nativeWriter{writer: g, schema: a, tool: i}
		return g.text(gemmaOpen+"call:"+name) + " " + n.object(a.root, fmt.Sprintf("args_%d", i), "", 0) + " " + g.text(gemmaClose)
	})
}

// nativeWriter writes the rules of arguments in the notation that native reads. Values whose
// schemas it does not know are written as JSON, which native reads too.
type nativeWriter struct {
	*writer
	schema *argumentSchema
	tool   int
	values int // number of objects and arrays that have rules of their own
}

// maxNativeValues bounds the rules of a tool: a schema that refers to itself can describe any
// number of nested values. Further values are written as JSON.
const maxNativeValues = 256

// object returns the symbols of an object, whose keys are sorted, as the model's template writes
// them. rule is the beginning of the names of its rules, and path the JSON pointer of the schema.
func (n *nativeWriter) object(o *ordered.Object, rule, path string, depth int) string {
	list, _ := member(o, "required").([]ordered.Value)
	properties, _ := member(o, "properties").(*ordered.Object)
	var names []string
	if properties != nil {
		names = properties.Keys()
	}
	for _, r := range list {
		if name, ok := r.(string); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	others := member(o, "additionalProperties")
	if len(names) == 0 && n.schema.kindOf(others, 0) != (kind{}) {
		pair := rule + "_pair"
		n.rule(pair, `/[A-Za-z_][A-Za-z0-9_\-]{0,63}/ ":" %s`, n.value(others, rule+"_other", path+"/additionalProperties", depth))
		return fmt.Sprintf(`"{" (%s ("," %s)*)? "}"`, pair, pair)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
	pairs, required := make([]string, len(names)), make([]bool, len(names))
	for k, name := range names {
		value, at := others, path+"/additionalProperties"
		if properties != nil {
			if v, ok := properties.Get(name); ok {
				value, at = v, path+"/properties"+pointer(name)
			}
		}
		if name == "" || len(name) > maxKey || strings.ContainsAny(name, ":{}[],\"<\n") || strings.TrimSpace(name) != name {
			n.fail(n.tool, "%s: the name is empty, longer than %d bytes, or has a character that this form cannot have in names", at, maxKey)
		}
		pairs[k] = fmt.Sprintf("%s_%d", rule, k)
		n.rule(pairs[k], "%s %s", n.text(name+":"), n.value(value, pairs[k], at, depth))
		required[k] = slices.Contains(list, ordered.Value(name))
	}
	return `"{" ` + n.members(pairs, required, rule) + ` "}"`
}

// members returns the symbols of pairs with commas between them. Any of the pairs up to the first
// required one can be the first of the object.
func (n *nativeWriter) members(pairs []string, required []bool, rule string) string {
	rest := ""
	var firsts []string
	for k := len(pairs) - 1; k >= 0; k-- {
		firsts = append([]string{strings.TrimSpace(pairs[k] + " " + rest)}, firsts...)
		next := fmt.Sprintf(`("," %s)`, pairs[k])
		if !required[k] {
			next += "?"
		}
		name := fmt.Sprintf("%s_rest_%d", rule, k)
		n.rule(name, "%s", strings.TrimSpace(next+" "+rest))
		rest = name
	}
	if at := slices.Index(required, true); at >= 0 {
		return "(" + strings.Join(firsts[:at+1], " | ") + ")"
	}
	if len(firsts) == 0 {
		return ""
	}
	return "(" + strings.Join(firsts, " | ") + ")?"
}

// maxNative is the number of objects and arrays within each other that are not written as JSON.
const maxNative = 8

// value returns the symbols of a value.
func (n *nativeWriter) value(v ordered.Value, rule, path string, depth int) string {
	a := n.schema
	k := a.kindOf(v, 0)
	var choices []string
	if k.text {
		choices = append(choices, n.string(v, rule, path))
	}
	if k.others != 0 {
		symbols, ok := n.nested(v, k, rule, path, depth)
		if !ok {
			symbols = "json_" + rule
			if k.text {
				v = a.withoutStrings(v, 0)
			}
			n.rule(symbols, "%%json %s", a.document(n.writer, n.tool, v, path))
		}
		choices = append(choices, symbols)
	}
	choices = slices.DeleteFunc(choices, func(c string) bool { return c == "" })
	if len(choices) == 0 {
		n.fail(n.tool, "%s: the schema allows no value", path)
	}
	return "(" + strings.Join(choices, " | ") + ")"
}

// string returns the symbols of the strings of a schema; "" if it allows none.
func (n *nativeWriter) string(v ordered.Value, rule, path string) string {
	t := &plainText{writer: n.writer, schema: n.schema, tool: n.tool, closing: gemmaQuote, kind: kind{text: true}}
	terminals, empty := t.strings(v, path, 0)
	text := ""
	if len(terminals) > 0 {
		text = strings.ToUpper(rule)
		n.rule(text, "%s", strings.Join(terminals, " | "))
		if empty {
			text += "?"
		}
	} else if !empty {
		return ""
	}
	mark := n.text(gemmaQuote)
	return strings.Join(strings.Fields(mark+" "+text+" "+mark), " ")
}

// nested returns the symbols of an object with known properties, or of an array of any length. ok
// is false for other schemas.
func (n *nativeWriter) nested(v ordered.Value, k kind, rule, path string, depth int) (symbols string, ok bool) {
	for range maxNesting {
		o, _ := v.(*ordered.Object)
		if o == nil {
			return "", false
		}
		ref, is := o.Get("$ref")
		if !is {
			break
		}
		v = n.schema.resolve(ref)
	}
	o, is := v.(*ordered.Object)
	if !is || k.text || depth == maxNative || n.values == maxNativeValues {
		return "", false
	}
	n.values++
	plain := func(keywords ...string) bool {
		return !slices.ContainsFunc(o.Keys(), func(key string) bool {
			return !slices.Contains(annotations, key) && !slices.Contains(keywords, key)
		})
	}
	properties, _ := member(o, "properties").(*ordered.Object)
	items, hasItems := o.Get("items")
	switch {
	case k.others == objects && properties != nil && len(properties.Keys()) > 0 && plain("type", "properties", "required", "additionalProperties"):
		return n.object(o, rule, path, depth+1), true
	case k.others == arrays && hasItems && plain("type", "items"):
		item := rule + "_item"
		n.rule(item, "%s", n.value(items, item+"_value", path+"/items", depth+1))
		return fmt.Sprintf(`"[" (%s ("," %s)*)? "]"`, item, item), true
	}
	return "", false
}
