package apple

import (
	_ "embed" // the signatures
	"fmt"
	"slices"
	"strings"
)

// signatureLines has a line for each message that the driver sends: class, selector, result and
// arguments, as Apple's C++ bindings (macOS 26) declare them.
//
//go:embed testdata/fakemetal/signatures.tsv
var signatureLines string

// signature is the calling convention of a method.
type signature struct {
	Class, Selector string
	// Args has a letter for each argument: u for an integer, n for an enumeration, b for a BOOL, s
	// for a selector, c for a C string, e for the address of an NSError, z for the address of an
	// MTLSize, p for any other address, r for an NSRange, o for an object.
	Args    string
	Classes []string // classes of the arguments that are objects
	// Returns is the letter of the result: one of u, n, b, c, p and o, or v for nothing, or d for a
	// double.
	Returns byte
}

// Words returns the number of registers that the arguments occupy.
func (s signature) Words() int { return len(s.Args) + strings.Count(s.Args, "r") }

// classMethods are the methods of classes. The bindings do not distinguish them from methods of
// objects.
var classMethods = []string{"alloc", "stringWithCString:encoding:", "dictionaryWithObject:forKey:", "fileURLWithPath:", "sharedCaptureManager"}

// readSignatures returns all messages that the fake implements.
func readSignatures() ([]signature, error) {
	var list []signature
	for line := range strings.Lines(signatureLines) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("read signatures: %q has %d fields, not 4", line, len(f))
		}
		s, err := parse(f[0], f[1], f[2], f[3])
		if err != nil {
			return nil, fmt.Errorf("read signatures: %s %s: %w", f[0], f[1], err)
		}
		list = append(list, s)
	}
	return list, nil
}

func parse(class, selector, returns, args string) (signature, error) {
	s := signature{Class: objcName(class), Selector: selector}
	var list []string
	if args != "" {
		list = strings.Split(args, ", ")
	}
	// The bindings of static functions have the receiver as first argument.
	if takes := strings.Count(selector, ":"); len(list) == takes+1 {
		list = list[1:]
	} else if len(list) != takes {
		return s, fmt.Errorf("the line has %d arguments, but the selector has %d colons", len(list), takes)
	}
	for _, a := range list {
		kind, object := kindOf(a)
		s.Args += string(kind)
		if kind == 'o' {
			s.Classes = append(s.Classes, object)
		}
	}
	s.Returns, _ = kindOf(returns + " result")
	return s, nil
}

// kindOf returns the letter for a parameter's declaration (type and name), and the class if the
// parameter is an object.
func kindOf(declaration string) (kind byte, class string) {
	at := strings.LastIndexByte(declaration, ' ')
	kindName, name := strings.TrimPrefix(declaration[:at], "const "), declaration[at+1:]
	base, isPointer := strings.CutSuffix(kindName, "*")
	base = strings.TrimSuffix(base, " const")
	switch {
	case strings.HasSuffix(name, "[]") || base == "void" && isPointer:
		return 'p', ""
	case base == "NS::Error*":
		return 'e', ""
	case base == "char" && isPointer:
		return 'c', ""
	case isPointer:
		return 'o', objcName(base)
	case kindName == "void":
		return 'v', ""
	case kindName == "bool":
		return 'b', ""
	case kindName == "SEL":
		return 's', ""
	case kindName == "CFTimeInterval":
		return 'd', ""
	case kindName == "MTL::Size":
		return 'z', ""
	case kindName == "NS::Range":
		return 'r', ""
	case slices.Contains([]string{"NS::UInteger", "UInteger", "NS::Integer", "uint64_t"}, kindName):
		return 'u', ""
	}
	return 'n', ""
}

func objcName(class string) string {
	switch class {
	case "_Object", "_Class":
		return "NSObject"
	}
	if !strings.Contains(class, "::") {
		return "NS" + class
	}
	return strings.ReplaceAll(class, "::", "")
}

// header returns messages.h, the signatures for C.
func header(list []signature) string {
	var b strings.Builder
	b.WriteString("#pragma once\n#include \"objects.h\"\n#define MESSAGES(X) \\\n")
	for _, s := range list {
		classes := [3]string{"NoClass", "NoClass", "NoClass"}
		for i, c := range s.Classes {
			classes[i] = "Class" + c
		}
		fmt.Fprintf(&b, "X(%s, %s, %t, %q, %q, %s, '%c') \\\n", s.Class, strings.ReplaceAll(s.Selector, ":", "_"),
			slices.Contains(classMethods, s.Selector), s.Selector, s.Args, strings.Join(classes[:], ", "), s.Returns)
	}
	b.WriteString("\ntypedef enum Message {\n#define X(kind, id, ...) kind##_##id,\nMESSAGES(X)\n#undef X\nMessageCount\n} Message;\n")
	return b.String()
}
