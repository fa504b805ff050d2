// Package jinja renders chat templates: the Jinja programs that models ship to turn messages into a prompt.
//
// The prompt is byte for byte what Hugging Face transformers makes of the same template. The language is therefore that
// of Python's jinja2 in an ImmutableSandboxedEnvironment with trim_blocks and lstrip_blocks, its loop controls and do
// statement, and transformers' generation tag, tojson filter and the functions raise_exception and strftime_now. Values
// behave as in Python: 7/2 is 3.5, True prints as True, a list prints as its repr, 'é' has length 1. Templates that
// include, import or extend others are refused, since a model ships one.
//
// A template is a stranger's program. It cannot change the values that it is given, and it runs under limits of time,
// memory and depth.
package jinja

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/ordered"
)

// Template is a parsed chat template. It never changes and is safe for use from many goroutines.
type Template struct {
	name   string
	source string // with newlines as the lexer normalises them; positions are offsets in it
	body   []stmt
	root   *scope
	names  []string     // the variables of the context that the template reads
	absent []*undefined // what each of them is where the context has no such variable
}

// Parse reads a template. The name is for error messages only; an error is an *Error with the place of the mistake.
func Parse(name, source string) (*Template, error) {
	t := &Template{name: name, source: normalizeNewlines(source)}
	if len(source) > maxSource {
		return nil, t.locate(errAt(0, fmt.Errorf("the template is longer than %d bytes", maxSource)))
	}
	if i := invalidUTF8(t.source); i >= 0 {
		return nil, t.locate(errAt(i, errors.New("the template is not UTF-8")))
	}
	tokens, err := lex(t.source)
	if err != nil {
		return nil, t.locate(err)
	}
	p := parser{tokens: tokens}
	if t.body, err = p.template(); err != nil {
		return nil, t.locate(err)
	}
	if err := t.bind(); err != nil {
		return nil, t.locate(err)
	}
	return t, nil
}

// Render runs the template with the variables of ctx, which it does not change. The time is what strftime_now reads.
//
// An error is an *Error with the place in the template. Where the template itself refused the messages by calling
// raise_exception, it wraps a *RaiseError.
func (t *Template) Render(ctx *ordered.Object, now time.Time) (string, error) {
	r := newRender(t, ctx, now)
	defer r.release()
	return r.prompt()
}

func (r *render) prompt() (string, error) {
	t := r.t
	if _, err := r.run(t.body, t.root.enter(r, nil)); err != nil {
		return "", t.locate(err)
	}
	return string(r.out), nil
}

// Error is a mistake in a template, or one that came up while it was rendered.
type Error struct {
	Template string // the name given to Parse
	Line     int    // from 1
	Column   int    // from 1, in characters
	Err      error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %v", e.Template, e.Line, e.Column, e.Err)
}

// Unwrap gives the error without its place.
func (e *Error) Unwrap() error { return e.Err }

// RaiseError is the refusal of a template that called raise_exception, with its message.
type RaiseError struct{ Message string }

func (e *RaiseError) Error() string { return e.Message }

// placed is an error with its offset in the source.
type placed struct {
	offset int
	err    error
}

func (p *placed) Error() string { return p.err.Error() }

// errAt gives an error its place, unless it has a closer one already.
func errAt(offset int, err error) error {
	if p, ok := err.(*placed); ok { //nolint:errorlint // errAt's result is never wrapped
		return p
	}
	return &placed{offset, err}
}

// locate turns the offset of an error into line and column.
func (t *Template) locate(err error) error {
	e := &Error{Template: t.name, Line: 1, Column: 1, Err: err}
	if p, ok := err.(*placed); ok { //nolint:errorlint // errAt's result is never wrapped
		before := t.source[:min(p.offset, len(t.source))]
		e.Err = p.err
		e.Line += strings.Count(before, "\n")
		e.Column += utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	}
	return e
}

// normalizeNewlines makes every line end in \n and takes the last one off, as Jinja does.
func normalizeNewlines(s string) string {
	if strings.Contains(s, "\r") {
		s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	}
	return strings.TrimSuffix(s, "\n")
}

// invalidUTF8 is the offset of the first byte that is not part of a character, or -1.
func invalidUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return i
			}
		}
	}
	return -1
}
