package apple

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// headersVariable names Apple's C++ bindings (metal-cpp): the folder of their headers or, for the
// messages alone, a file with a line for each message as in signatures.tsv.
const headersVariable = "INGOT_METAL_CPP"

// appleHeaders returns the text of Apple's headers; empty if the variable names a file of messages,
// whose lines it returns then.
func appleHeaders(t *testing.T) (text, messages string) {
	t.Helper()
	path := os.Getenv(headersVariable)
	if path == "" {
		t.Skip(headersVariable + " is not set: what the driver uses is not compared with Apple's headers")
	}
	if strings.HasSuffix(path, ".tsv") {
		lines, err := os.ReadFile(path)
		require.NoError(t, err)
		return "", string(lines)
	}
	for _, pattern := range []string{"Foundation/*.hpp", "Metal/*.hpp"} {
		names, err := filepath.Glob(filepath.Join(path, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, names, "%s: no headers in %s", headersVariable, path)
		for _, name := range names {
			header, err := os.ReadFile(name)
			require.NoError(t, err)
			text += string(header)
		}
	}
	return text, ""
}

var (
	definedSelector = regexp.MustCompile(`_(?:MTL|NS)_PRIVATE_DEF_SEL\(\s*(\w+),\s*"([^"]+)"`)
	anyObject       = regexp.MustCompile(`\bid (\w+)`) // some versions of the headers declare an object so
	definedMethod   = regexp.MustCompile(`_(?:MTL|NS)_INLINE ([^;{}]+?)\s*\b((?:MTL|NS)::\w+)(?:<\w+>)?::\w+\(([^)]*)\)(?: const)?\s*\{[^{}]*?_PRIVATE_SEL\((\w+)\)`)
)

// methodsIn returns the declarations of messages in Apple's headers, by class and selector. A
// method can be declared several times.
func methodsIn(t *testing.T, text, lines string, sent map[string]signature) map[string][]signature {
	t.Helper()
	list := map[string][]signature{}
	add := func(class, selector, returns, args string) {
		name := objcName(class) + " " + selector
		if _, ok := sent[name]; !ok {
			return
		}
		s, err := parse(class, selector, returns, anyObject.ReplaceAllString(args, "NS::Object* $1"))
		require.NoError(t, err, name)
		list[name] = append(list[name], s)
	}
	for line := range strings.Lines(lines) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 4, line)
		add(f[0], f[1], f[2], f[3])
	}
	selectors := map[string]string{}
	for _, m := range definedSelector.FindAllStringSubmatch(text, -1) {
		selectors[m[1]] = m[2]
	}
	for _, m := range definedMethod.FindAllStringSubmatch(text, -1) {
		add(m[2], selectors[m[4]], m[1], strings.Join(strings.Fields(m[3]), " "))
	}
	return list
}

// TestMessagesOfAppleHeaders compares the declarations in signatures.tsv, with which other tests
// compare the driver and on which the fake is built, with Apple's headers.
func TestMessagesOfAppleHeaders(t *testing.T) {
	text, lines := appleHeaders(t)
	sent := signatures(t)
	declared := methodsIn(t, text, lines, sent)
	for name, s := range sent {
		require.Contains(t, declared, name)
		require.True(t, slices.ContainsFunc(declared[name], func(d signature) bool {
			return d.Args == s.Args && d.Returns == s.Returns && slices.Equal(d.Classes, s.Classes)
		}), "%s: signatures.tsv has %+v, Apple's headers have %+v", name, s, declared[name])
	}
}

// TestConstantsOfAppleHeaders compares the constants that have Apple's names in constants.go, and
// the structs that are passed to messages, with Apple's headers.
func TestConstantsOfAppleHeaders(t *testing.T) {
	text, _ := appleHeaders(t)
	if text == "" {
		t.Skip(headersVariable + " names a file of messages: constants are not compared")
	}
	count := 0
	file, err := parser.ParseFile(token.NewFileSet(), "constants.go", nil, parser.ParseComments)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.ValueSpec)
		if !ok || s.Comment == nil {
			return true
		}
		name := regexp.MustCompile(`^(?:MTL|NS)(\w+)`).FindStringSubmatch(s.Comment.Text())
		if name == nil {
			return true
		}
		m := regexp.MustCompile(`\b` + name[1] + `\s*=\s*\(?(\w+)\)?`).FindStringSubmatch(text)
		require.NotNil(t, m, name[1])
		want, err := strconv.ParseInt(m[1], 0, 64)
		require.NoError(t, err, name[1])
		require.Equal(t, want, value(t, s.Values[0]), "%s: %s", s.Names[0].Name, name[1])
		count++
		return true
	})
	require.Greater(t, count, 12)
	for name, fields := range map[string]int{"Size": 3, "Range": 2} {
		body := regexp.MustCompile(`(?s)struct ` + name + `\n\{(.*?)\n\}`).FindStringSubmatch(text)
		require.NotNil(t, body, name)
		require.Len(t, regexp.MustCompile(`(?m)^\s*(?:NS::)?UInteger\s+\w+;`).FindAllString(body[1], -1), fields, name)
	}
	require.Equal(t, 3*unsafe.Sizeof(uintptr(0)), unsafe.Sizeof(size{}))
}

// value returns the value of a constant's expression: a number, or two numbers with << and |.
func value(t *testing.T, e ast.Expr) int64 {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		v, err := strconv.ParseInt(e.Value, 0, 64)
		require.NoError(t, err)
		return v
	case *ast.BinaryExpr:
		a, b := value(t, e.X), value(t, e.Y)
		if e.Op == token.SHL {
			return a << b
		}
		require.Equal(t, token.OR, e.Op)
		return a | b
	}
	require.Fail(t, "not a constant expression")
	return 0
}
