// Package jinja renders chat templates: the Jinja programs that models ship to turn messages into a
// prompt.
//
// The prompt is byte for byte the same as with Hugging Face transformers. The language is therefore
// the one of Python's jinja2 in an ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks
// and loop controls, and with transformers' generation tag, tojson filter and functions
// raise_exception and strftime_now. Values behave as in Python: 7/2 is 3.5, True prints as True, a
// list prints as its repr, 'é' has length 1. Features that no published chat template uses are not
// supported, and Parse refuses them by name (refuse.go).
//
// A template passes through these stages, each in the files named after it:
//
//	lexer    source -> tokens. White space around tags is removed here.
//	parser   tokens -> tree of statements and expressions (ast.go); parser_expr.go parses the expressions
//	scope    decides for every name to which scope it belongs; bind.go assigns slots of frames (frame.go)
//	exec     runs statements, which write the prompt; loop.go runs loops
//	eval     computes expressions; value.go has the types of values, call.go calls functions, macros and builtins
//
// To add a filter, add a line to the table in filters.go and a function to the file of its subject:
// filters_text.go, filters_number.go or filters_list.go. To add a test, a method or a global
// function, add a line to tests.go, methods.go or globals.go. Remove the name from refuse.go. Then
// add cases to testdata/conformance.py and run it. It records the results of Python's jinja2, and
// TestConformance compares them.
//
// Inside the package, an error of parsing or rendering is a panic with a value of type failure, as
// in text/template. Parse and Render recover it and return an *Error.
//
// A template is a program of unknown origin. It cannot change the values that it is given, and its
// steps, memory and depth are limited (render.go).
package jinja

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Template is a parsed chat template. It never changes and is safe for use from many goroutines.
type Template struct {
	name   string
	kind   string // what the template is one of, in the plural, for errors
	source string // with newlines normalised; positions are offsets in this text
	body   []stmt
	root   *scope
	names  []string     // the variables of the context that the template reads
	absent []*undefined // [names] value of a name that the context does not have
	strict bool         // ParseStrict made the template
}

// Parse reads a chat template. name is used only in error messages. An error is an *Error with the
// position of the mistake.
func Parse(name, source string) (*Template, error) {
	return parse(&Template{name: name, kind: "chat templates", source: strings.TrimSuffix(normalizeNewlines(source), "\n")})
}

// ParseStrict reads a template by the rules of lm-evaluation-harness instead of those of
// transformers: tags remove no white space unless they have a -, a line end at the end of the text
// is kept, and an undefined value can only be tested by defined and undefined or replaced by the
// filter default. Every other use of it is an error, as with jinja2's StrictUndefined. kind is what
// errors call such templates, in the plural: "rubrics".
func ParseStrict(name, kind, source string) (*Template, error) {
	return parse(&Template{name: name, kind: kind, source: normalizeNewlines(source), strict: true})
}

func parse(t *Template) (_ *Template, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = t.recovered(e, 0)
		}
	}()
	if len(t.source) > maxSource {
		failAt(0, "the template is longer than %d bytes", maxSource)
	}
	if i := invalidUTF8(t.source); i >= 0 {
		failAt(i, "the template is not UTF-8")
	}
	p := parser{tokens: lex(t.source, t.strict)}
	t.body = p.template()
	t.bind()
	return t, nil
}

// Render runs the template with the variables of ctx. It does not change ctx. now is the time for
// strftime_now.
//
// An error is an *Error with the position in the template. It wraps a *RaiseError if the template
// itself refused the messages by calling raise_exception.
func (t *Template) Render(ctx *ordered.Object, now time.Time) (string, error) {
	return t.RenderContext(context.Background(), ctx, now)
}

// RenderContext is like Render, but stops soon after done is done. The *Error then wraps done's
// error.
func (t *Template) RenderContext(done context.Context, ctx *ordered.Object, now time.Time) (string, error) {
	r := newRender(t, ctx, now)
	defer r.release()
	r.done = done
	return r.prompt()
}

func (r *render) prompt() (prompt string, err error) {
	defer func() {
		if e := recover(); e != nil {
			prompt, err = "", r.t.recovered(e, r.at)
		}
	}()
	r.run(r.t.body, r.t.root.enter(r, nil))
	return string(r.out), nil
}

// Error is an error of parsing or rendering a template, with its position in the template.
type Error struct {
	Template string
	Line     int // counted from 1
	Column   int // counted from 1, in characters
	Err      error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %v", e.Template, e.Line, e.Column, e.Err)
}

// Unwrap returns the error without its position.
func (e *Error) Unwrap() error { return e.Err }

// RaiseError is the error of a template that called raise_exception, with the template's message.
type RaiseError struct{ Message string }

func (e *RaiseError) Error() string { return e.Message }

// failure is the panic that stops parsing or rendering.
type failure struct {
	err    error
	offset int // position in the source; negative for the position of the current operation
}

func fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...), -1}) }

func failWith(err error) { panic(failure{err, -1}) }

// must returns v or, if err is not nil, stops the rendering with err.
func must[T any](v T, err error) T {
	if err != nil {
		failWith(err)
	}
	return v
}

func failAt(offset int, format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...), offset})
}

// recovered returns the *Error for a failure, at offset if it has no position. If e is not a
// failure, it panics again.
func (t *Template) recovered(e any, offset int) error {
	f, ok := e.(failure)
	if !ok {
		panic(e)
	}
	if f.offset >= 0 {
		offset = f.offset
	}
	if u := (*unsupportedError)(nil); errors.As(f.err, &u) {
		f.err = &unsupportedError{u.what, u.hint, t.kind}
	}
	before := t.source[:min(offset, len(t.source))]
	return &Error{
		Template: t.name,
		Line:     1 + strings.Count(before, "\n"),
		Column:   1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]),
		Err:      f.err,
	}
}

// normalizeNewlines replaces all line ends by \n.
func normalizeNewlines(s string) string {
	if strings.Contains(s, "\r") {
		s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	}
	return s
}

// invalidUTF8 returns the offset of the first byte that is not valid UTF-8; -1 if there is none.
func invalidUTF8(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return i
			}
		}
	}
	return -1
}
