package emulator

import (
	"fmt"
	"regexp"
	"strings"
)

// translate turns kernels in Metal's language into C++ that runs behind runtime.h and msl.h: attributes go, pointers to
// device and threadgroup memory become types that can be checked, other address spaces go, and every kernel is followed by
// a function that calls it with the buffers and indices of a fibre.
func translate(text string) (string, error) {
	t := translator{in: split(text)}
	for t.at < len(t.in) {
		if err := t.next(); err != nil {
			return "", err
		}
	}
	return t.out.String(), nil
}

// tokens are comments, strings, characters, lines of #include <...>, names, numbers, the brackets of attributes, spaces, and
// any other character by itself.
var tokens = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|#include\s*<[^\n]*|#line[^\n]*|[A-Za-z_]\w*|\d[\w.]*|\[\[|\s+|.`)

func split(text string) []string { return tokens.FindAllString(text, -1) }

type translator struct {
	in       []string
	at       int
	out      strings.Builder
	template string // the template header that stands before at, as written
}

func (t *translator) next() error {
	word := t.in[t.at]
	switch {
	case strings.HasPrefix(word, "#include"):
		t.at++
	case word == "[[":
		t.attribute()
	case word == "device" || word == "threadgroup":
		t.space(word + "_ptr")
	case word == "thread":
		t.at++
	case word == "constant":
		t.out.WriteString("const")
		t.at++
	case word == "template":
		return t.header()
	case word == "kernel":
		return t.kernel()
	default:
		t.out.WriteString(word)
		t.at++
	}
	return nil
}

// attribute drops a [[...]] and returns what stood in it.
func (t *translator) attribute() string {
	var b strings.Builder
	for t.at++; t.at < len(t.in) && (t.in[t.at] != "]" || t.at+1 == len(t.in) || t.in[t.at+1] != "]"); t.at++ {
		b.WriteString(t.in[t.at])
	}
	t.at += 2
	return strings.TrimSpace(b.String())
}

// space reads an address space: with `const T*` after it, it makes the pointer type; otherwise it is dropped.
func (t *translator) space(pointer string) {
	from := t.at + 1
	at, depth, kind := from, 0, ""
	for ; at < len(t.in); at++ {
		word := t.in[at]
		if depth == 0 && (word == "*" || strings.ContainsAny(word, "&(){};,=[")) {
			break
		}
		switch word {
		case "<":
			depth++
		case ">":
			depth--
		}
		kind += word
	}
	kind = strings.TrimSpace(kind)
	if at == len(t.in) || t.in[at] != "*" {
		t.at++
		if t.at < len(t.in) && strings.TrimSpace(t.in[t.at]) == "" {
			t.at++
		}
		return
	}
	t.out.WriteString("ingot::" + pointer + "<" + kind + ">")
	t.at = at + 1
}

// header copies a template header and keeps it for the kernel that may follow.
func (t *translator) header() error {
	from, depth := t.at, 0
	for ; t.at < len(t.in); t.at++ {
		word := t.in[t.at]
		switch word {
		case "<":
			depth++
		case ">":
			depth--
		}
		if word == ">" && depth == 0 {
			t.at++
			t.template = strings.Join(t.in[from:t.at], "")
			t.out.WriteString(t.template)
			t.blank()
			if t.at < len(t.in) && t.in[t.at] != "kernel" {
				t.template = ""
			}
			return nil
		}
	}
	return fmt.Errorf("a template header has no end")
}

// blank copies white space and comments.
func (t *translator) blank() {
	for t.at < len(t.in) && (strings.TrimSpace(t.in[t.at]) == "" || strings.HasPrefix(t.in[t.at], "//") || strings.HasPrefix(t.in[t.at], "/*")) {
		t.out.WriteString(t.in[t.at])
		t.at++
	}
}

// parameters are the names in a template header, such as "W, N" of template <typename W, uint N>.
var lastNames = regexp.MustCompile(`(\w+)\s*(?:=[^,>]*)?[,>]`)

func parameters(template string) string {
	var names []string
	for _, m := range lastNames.FindAllStringSubmatch(template, -1) {
		names = append(names, m[1])
	}
	return strings.Join(names, ", ")
}

// kernel copies a kernel and adds the function that calls it.
func (t *translator) kernel() error {
	template := t.template
	t.template = ""
	for t.at++; t.at < len(t.in) && t.in[t.at] != "("; t.at++ {
		if strings.TrimSpace(t.in[t.at]) != "" {
			t.out.WriteString(t.in[t.at] + " ")
		}
	}
	name := lastWord(t.in[:t.at])
	e := entry{name: name}
	if err := t.arguments(&e); err != nil {
		return fmt.Errorf("kernel %s: %w", name, err)
	}
	if err := t.body(); err != nil {
		return fmt.Errorf("kernel %s: %w", name, err)
	}
	t.out.WriteString(e.caller(template))
	return nil
}

func lastWord(words []string) string {
	for i := len(words) - 1; i >= 0; i-- {
		if strings.TrimSpace(words[i]) != "" {
			return words[i]
		}
	}
	return ""
}

// arguments copies a kernel's parameters, without their attributes, and collects what is passed for each.
func (t *translator) arguments(e *entry) error {
	t.out.WriteString("(")
	depth, start, attribute := 0, t.out.Len(), ""
	for t.at++; t.at < len(t.in); {
		word := t.in[t.at]
		switch {
		case word == "[[":
			attribute = t.attribute()
			continue
		case word == "(" || word == "<":
			depth++
		case word == ">":
			depth--
		case word == ")" && depth > 0:
			depth--
		case word == "," && depth == 0 || word == ")":
			if err := e.add(strings.TrimSpace(t.out.String()[start:]), attribute); err != nil {
				return err
			}
			t.out.WriteString(word)
			t.at++
			if word == ")" {
				return nil
			}
			start, attribute = t.out.Len(), ""
			continue
		}
		if err := t.next(); err != nil {
			return err
		}
	}
	return fmt.Errorf("its parameters have no end")
}

// body copies up to the brace that ends a kernel.
func (t *translator) body() error {
	depth := 0
	for t.at < len(t.in) {
		word := t.in[t.at]
		if err := t.next(); err != nil {
			return err
		}
		switch word {
		case "{":
			depth++
		case "}":
			if depth--; depth == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("its body has no end")
}

// entry is a kernel as the runtime calls it.
type entry struct {
	name    string
	pass    []string
	buffers int
	args    string // the type of the argument struct
	shared  bool
}

var (
	bufferIndex  = regexp.MustCompile(`^buffer\((\d+)\)$`)
	pointerTo    = regexp.MustCompile(`^ingot::(device|threadgroup)_ptr<(.*)>\s*\w+$`)
	structOf     = regexp.MustCompile(`^const\s+(\w+)\s*&\s*\w+$`)
	threadValues = map[string]string{
		"threadgroup_position_in_grid":   "f.worker->group",
		"threadgroups_per_grid":          "ingot::groups(f)",
		"thread_index_in_threadgroup":    "f.tid",
		"thread_index_in_simdgroup":      "f.lane",
		"simdgroup_index_in_threadgroup": "f.simdgroup->index",
		"simdgroups_per_threadgroup":     "f.worker->launch->threads / ingot::lanes",
	}
)

// add takes a parameter: its declaration, in C++, and its attribute.
func (e *entry) add(declaration, attribute string) error {
	pointer := pointerTo.FindStringSubmatch(declaration)
	if value, ok := threadValues[attribute]; ok {
		e.pass = append(e.pass, value)
		return nil
	}
	if m := bufferIndex.FindStringSubmatch(attribute); m != nil {
		if m[1] != fmt.Sprint(e.buffers) || e.args != "" {
			return fmt.Errorf("parameter %q has [[%s]]: buffers are numbered from 0, the argument struct last", declaration, attribute)
		}
		if len(pointer) == 3 && pointer[1] == "device" {
			e.pass = append(e.pass, fmt.Sprintf("ingot::bind<%s>(f, %d)", pointer[2], e.buffers))
			e.buffers++
			return nil
		}
		if s := structOf.FindStringSubmatch(declaration); s != nil {
			e.args = s[1]
			e.pass = append(e.pass, fmt.Sprintf("*(const %s*)f.worker->launch->args", e.args))
			return nil
		}
	}
	if attribute == "threadgroup(0)" && len(pointer) == 3 && pointer[1] == "threadgroup" {
		e.shared = true
		e.pass = append(e.pass, fmt.Sprintf("ingot::shared<%s>(f)", pointer[2]))
		return nil
	}
	return fmt.Errorf("parameter %q with attribute [[%s]] is not one that this driver can pass", declaration, attribute)
}

// caller is the function that describes and calls a kernel; a kernel that is no template is registered at once.
func (e *entry) caller(template string) string {
	instance, size := e.name, "0"
	if template != "" {
		instance += "<" + parameters(template) + ">"
	}
	if e.args != "" {
		size = "sizeof(" + e.args + ")"
	}
	text := fmt.Sprintf(" %s static ingot::Entry ingot_entry_%s(const char* name) { return {name, [](ingot::Fibre& f) { %s(%s); }, %d, %s, %t}; }",
		template, e.name, instance, strings.Join(e.pass, ", "), e.buffers, size, e.shared)
	if template == "" {
		text += fmt.Sprintf(" static const ingot::Register ingot_register_%s(ingot_entry_%s(%q));", e.name, e.name, e.name)
	}
	return text
}
