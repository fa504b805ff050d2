package apple

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func signatures(t *testing.T) map[string]signature {
	t.Helper()
	list, err := readSignatures()
	require.NoError(t, err)
	byName := map[string]signature{}
	for _, s := range list {
		byName[s.Class+" "+s.Selector] = s
	}
	return byName
}

// TestMessagesAreApples checks that the driver's list of messages is the same as the list of
// Apple's declarations in signatures.tsv.
func TestMessagesAreApples(t *testing.T) {
	declared := signatures(t)
	for _, m := range messages {
		require.Contains(t, declared, m.class+" "+m.selector)
		delete(declared, m.class+" "+m.selector)
	}
	require.Empty(t, declared)
}

// TestKindsOfArguments compares parsed declarations with results that were written by hand.
func TestKindsOfArguments(t *testing.T) {
	declared := signatures(t)
	for name, want := range map[string]string{
		"MTLBlitCommandEncoder copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:": "ououu v",
		"MTLCommandBuffer GPUStartTime":                                        " d",
		"MTLComputeCommandEncoder dispatchThreadgroups:threadsPerThreadgroup:": "zz v",
		"MTLComputeCommandEncoder setBuffers:offsets:withRange:":               "ppr v",
		"MTLComputeCommandEncoder setBytes:length:atIndex:":                    "puu v",
		"MTLDevice newBufferWithLength:options:":                               "un o",
		"MTLDevice newLibraryWithSource:options:error:":                        "ooe o",
		"NSObject respondsToSelector:":                                         "s b",
		"NSString UTF8String":                                                  " c",
		"NSString stringWithCString:encoding:":                                 "cn o",
	} {
		require.Equal(t, want, declared[name].Args+" "+string(declared[name].Returns), name)
	}
	require.Equal(t, []string{"MTLBuffer", "MTLBuffer"}, declared["MTLBlitCommandEncoder copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"].Classes)
	require.Equal(t, 4, declared["MTLComputeCommandEncoder setBuffers:offsets:withRange:"].Words())
}

// TestCallsPassAllWords parses the driver's source. It checks that every message is sent with the
// number of words in its declaration, and with the Go method for its kind of result.
func TestCallsPassAllWords(t *testing.T) {
	declared := signatures(t)
	seen := map[string]int{}
	for _, call := range calls(t) {
		name, words := constant(call), len(call.Args)-2
		m, ok := numbered(t)[name]
		if !ok {
			require.Equal(t, "m", name) // methods of objc that pass on their parameter m
			continue
		}
		seen[name]++
		s := declared[messages[m].class+" "+messages[m].selector]
		require.Equal(t, s.Words(), words, "words of %s", name)
		method := call.Fun.(*ast.SelectorExpr).Sel.Name
		switch s.Returns {
		case 'b':
			require.Equal(t, "sendBool", method, name)
		case 'd':
			require.Equal(t, "sendDouble", method, name)
		default:
			require.Equal(t, "send", method, name)
		}
	}
	for name := range numbered(t) {
		require.NotZero(t, seen[name], "%s is never sent", name)
	}
}

// calls returns all calls of send, sendBool and sendDouble in the driver.
func calls(t *testing.T) []*ast.CallExpr {
	t.Helper()
	var list []*ast.CallExpr
	for _, f := range parsed(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(method.Sel.Name, "send") {
				list = append(list, call)
			}
			return true
		})
	}
	require.Greater(t, len(list), int(messageCount)/2)
	return list
}

func parsed(t *testing.T) []*ast.File {
	t.Helper()
	names, err := fs.Glob(os.DirFS("."), "*.go")
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		files = append(files, f)
	}
	return files
}

func constant(call *ast.CallExpr) string {
	if name, ok := call.Args[1].(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// numbered returns the constants in messages.go by name.
func numbered(t *testing.T) map[string]message {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "messages.go", nil, 0)
	require.NoError(t, err)
	byName := map[string]message{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for i, s := range g.Specs {
			if name := s.(*ast.ValueSpec).Names[0].Name; name != "messageCount" {
				byName[name] = message(i)
			}
		}
	}
	require.Len(t, byName, int(messageCount))
	return byName
}
