package jinja

import (
	"cmp"
	"slices"
	"time"
)

// Jinja and Python have more features than published chat templates use. An unsupported feature is
// refused by name when a template is parsed, even in a branch that never runs, so that a batch does
// not fail in the middle.

// refuse stops parsing because of an unsupported construct. The parameter what is the beginning of
// the message with its verb, such as "the operator ** is".
func refuse(offset int, what string) { panic(failure{unsupported(what, ""), offset}) }

// unsupportedError is the error about a construct that is not supported.
type unsupportedError struct {
	what      string // the construct with its verb
	hint      string // what to use instead; empty for nothing
	templates string // what the template is one of, in the plural
}

// unsupported returns the error about a construct. what is as in refuse.
func unsupported(what, hint string) error { return &unsupportedError{what: what, hint: hint} }

func (e *unsupportedError) Error() string {
	text := e.what + " not supported in " + cmp.Or(e.templates, "templates")
	if e.hint != "" {
		text += "; use " + e.hint
	}
	return text
}

// Unsupported features of Jinja.
var (
	refusedStatements = []string{
		"include", "import", "from", "extends", "block", "autoescape", "call", "with", "do", "print", "trans", "debug",
	}
	refusedFilters = []string{
		"attr", "batch", "center", "e", "escape", "filesizeformat", "forceescape", "groupby", "max", "min", "pprint", "random",
		"slice", "striptags", "sum", "truncate", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr",
	}
	refusedTests   = []string{"callable", "escaped", "filter", "sameas", "test"}
	refusedGlobals = []string{"cycler", "joiner", "lipsum"}
	refusedInMacro = []string{"caller", "kwargs", "varargs"} // variables that Jinja defines inside macros
	refusedOfLoop  = []string{"changed", "cycle", "depth", "depth0"}
	// refusedMethods has unsupported methods of Python's strings, lists, dictionaries and numbers.
	// It does not have methods that change a list or a dictionary: these fail when they are called,
	// as in Jinja's sandbox.
	refusedMethods = []string{
		"casefold", "center", "encode", "expandtabs", "format_map", "isalnum", "isascii", "isdecimal", "isidentifier",
		"isnumeric", "isprintable", "istitle", "ljust", "maketrans", "rjust", "swapcase", "translate", "zfill", "copy", "fromkeys",
		"is_integer",
	}
)

func refuseName(kind string, name token, refused []string) {
	if slices.Contains(refused, name.text) {
		refuse(name.offset, "the "+kind+" '"+name.text+"' is")
	}
}

// refuseMethod refuses a call of an unsupported method. It checks only the method's name, because
// the type of the value is not known before rendering.
func refuseMethod(fn expr) {
	if fn, ok := fn.(*attrExpr); ok && slices.Contains(refusedMethods, fn.name) {
		refuse(int(fn.at), "the method '"+fn.name+"' is")
	}
}

// refuseGlobal refuses unsupported global names, unless the template sets them itself.
func refuseGlobal(n *nameExpr, inMacro bool) {
	if slices.Contains(refusedGlobals, n.name) || inMacro && slices.Contains(refusedInMacro, n.name) {
		refuse(int(n.at), "the name '"+n.name+"' is")
	}
}

func refuseFormat(n any) {
	var where at
	var err error
	switch n := n.(type) {
	case *binaryExpr:
		where = n.at
		if format, ok := constText(n.left); ok && n.op == "%" {
			_, err = percentPieces(format)
		}
	case *filterExpr:
		where = n.at
		if format, ok := constText(n.value); ok && n.kind == "filter" && n.name == "format" {
			_, err = percentPieces(format)
		}
	case *callExpr:
		where = n.at
		switch fn := n.fn.(type) {
		case *attrExpr:
			if format, ok := constText(fn.object); ok && fn.name == "format" {
				_, err = formatPieces(format)
			}
		case *nameExpr:
			if fn.name == "strftime_now" && len(n.args.pos) == 1 {
				format, _ := constText(n.args.pos[0])
				_, err = strftime(time.Time{}, format)
			}
		}
	}
	if err != nil {
		panic(failure{err, int(where)})
	}
}

func constText(e expr) (string, bool) {
	c, ok := e.(*constExpr)
	if !ok {
		return "", false
	}
	return text(c.value)
}

func refuseLoopAttribute(object expr, name token) {
	if n, ok := object.(*nameExpr); ok && n.name == "loop" && slices.Contains(refusedOfLoop, name.text) {
		refuse(name.offset, "the attribute '"+name.text+"' of loop is")
	}
}
