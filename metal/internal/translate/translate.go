// Package translate turns kernels in Metal's language into C++, for drivers that use C++ compilers.
// It removes attributes and address spaces, and replaces pointers to device and threadgroup memory
// with types of the driver. The driver adds the code that calls a kernel.
package translate

import (
	_ "embed" // the header
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Header is msl.h: the part of Metal's language and library that is the same for all drivers with
// translated kernels.
//
//go:embed msl.h
var Header string

// C translates kernels to C++. For each kernel, it calls entry and inserts the returned text after
// the kernel. The driver must put Header and its own code before the result. That code defines the
// types ingot::device_ptr<T> and ingot::threadgroup_ptr<T> and the rest of Metal's library.
func C(text string, entry func(k *Kernel) string) (string, error) {
	t := translator{in: split(text), entry: entry}
	for t.at < len(t.in) {
		if err := t.next(); err != nil {
			return "", err
		}
	}
	return t.out.String(), nil
}

// tokens matches one token: a comment, a string, a character, a line of #include <...> or #line, a
// name, a number, the opening brackets of an attribute, spaces, or any other character by itself.
var tokens = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|#include\s*<[^\n]*|#line[^\n]*|[A-Za-z_]\w*|\d[\w.]*|\[\[|\s+|.`)

func split(text string) []string { return tokens.FindAllString(text, -1) }

type translator struct {
	in       []string
	at       int
	out      strings.Builder
	entry    func(k *Kernel) string
	template string // source text of the template header of the kernel that follows; empty if there is none
	threads  int    // value of the attribute max_total_threads_per_threadgroup of the kernel that follows; 0 if there is none
}

func (t *translator) next() error {
	word := t.in[t.at]
	switch {
	case strings.HasPrefix(word, "#include"):
		t.at++
	case word == "[[":
		if m := maxThreads.FindStringSubmatch(t.attribute()); m != nil {
			t.threads, _ = strconv.Atoi(m[1])
		}
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

// attribute drops a [[...]] and returns the text in the brackets.
func (t *translator) attribute() string {
	var b strings.Builder
	for t.at++; t.at < len(t.in) && (t.in[t.at] != "]" || t.at+1 == len(t.in) || t.in[t.at+1] != "]"); t.at++ {
		b.WriteString(t.in[t.at])
	}
	t.at += 2
	return strings.TrimSpace(b.String())
}

// space reads an address space. If `const T*` or `T*` follows, space writes the pointer type.
// Otherwise, it drops the address space.
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

// header copies a template header and stores it in t.template, since a kernel may follow.
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
			if t.at < len(t.in) && t.in[t.at] == "[[" {
				if err := t.next(); err != nil {
					return err
				}
				t.blank()
			}
			if t.at < len(t.in) && t.in[t.at] != "kernel" {
				t.template = ""
			}
			return nil
		}
	}
	return errors.New("a template header, which begins with \"template <\", has no matching \">\"")
}

func (t *translator) blank() {
	for t.at < len(t.in) && (strings.TrimSpace(t.in[t.at]) == "" || strings.HasPrefix(t.in[t.at], "//") || strings.HasPrefix(t.in[t.at], "/*")) {
		t.out.WriteString(t.in[t.at])
		t.at++
	}
}

// kernel copies a kernel and adds the driver's text that calls it.
func (t *translator) kernel() error {
	k := Kernel{Template: t.template, MaxThreads: t.threads}
	t.template, t.threads = "", 0
	for t.at++; t.at < len(t.in) && t.in[t.at] != "("; t.at++ {
		if strings.TrimSpace(t.in[t.at]) != "" {
			t.out.WriteString(t.in[t.at] + " ")
		}
	}
	k.Name = lastWord(t.in[:t.at])
	if err := t.arguments(&k); err != nil {
		return fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	if err := t.body(); err != nil {
		return fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	t.out.WriteString(t.entry(&k))
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

// arguments copies a kernel's parameters without their attributes, and adds each parameter to k.
func (t *translator) arguments(k *Kernel) error {
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
			if err := k.add(strings.TrimSpace(t.out.String()[start:]), attribute); err != nil {
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
	return fmt.Errorf("the closing parenthesis of the parameters is missing")
}

// body copies the text up to the brace that ends a kernel.
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
	return fmt.Errorf("the closing brace of the body is missing")
}
