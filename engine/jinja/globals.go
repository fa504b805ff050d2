package jinja

import (
	"fmt"
	"strings"
	"time"

	"github.com/ingot-run/ingot/internal/ordered"
)

var globals map[string]Value

func init() {
	globals = map[string]Value{}
	for name, b := range map[string]*builtin{
		"range":           def("start stop? step? /", newRange),
		"dict":            def("*", func(r *render, _ Value, a args) Value { return newDict(r, a) }),
		"namespace":       def("*", func(r *render, _ Value, a args) Value { return &namespace{newDict(r, a)} }),
		"raise_exception": def("message", raise),
		"strftime_now":    def("format", strftimeNow),
	} {
		globals[name] = b.method(name, nil)
	}
}

// namespace is an object whose attributes a template can set in any scope.
type namespace struct{ attrs *ordered.Object }

func newRange(_ *render, _ Value, a args) Value {
	s := &span{a.integer(0, 0), a.integer(1, 0), a.integer(2, 1)}
	if a.or(1, missing) == missing {
		s.start, s.stop = 0, s.start
	}
	if s.step == 0 {
		fail("range: the step must not be 0")
	}
	if n := s.len(); n < 0 || n > maxRange {
		fail("range: a range must not have more than %d elements", maxRange)
	}
	return s
}

// newDict returns the result of Python's dict. Its arguments are a dictionary or a list of pairs,
// which can be left out, and named arguments.
func newDict(r *render, a args) *ordered.Object {
	if len(a.pos) > 1 {
		fail("dict and namespace take at most 1 argument without a name, not %d", len(a.pos))
	}
	o := ordered.NewObject()
	if len(a.pos) == 1 {
		if from, ok := a.pos[0].(*ordered.Object); ok {
			r.list(from.Len())
			o = from.Clone()
		} else {
			for _, item := range r.items(a.pos[0]) {
				pair := r.items(item)
				if len(pair) != 2 {
					fail("dict and namespace need pairs of a key and a value, but an element has length %d", len(pair))
				}
				r.list(1)
				r.put(o, pair[0], pair[1])
			}
		}
	}
	r.list(len(a.named))
	for _, n := range a.named {
		o.Set(n.name, n.value)
	}
	return o
}

func raise(r *render, _ Value, a args) Value {
	failWith(&RaiseError{r.str(a.pos[0])})
	return nil
}

func strftimeNow(r *render, _ Value, a args) Value {
	format := a.text(0)
	r.room(1, len(format))
	r.spend(itemCost * strings.Count(format, "%"))
	return must(strftime(r.now, format))
}

var timeLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'j': "002", 'm': "01", 'y': "06",
	'Y': "2006", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06",
	'R': "15:04",
}

// strftime formats a time. A - after the % removes leading zeros, as in %-d. The error names a
// conversion that is not in timeLayouts.
func strftime(t time.Time, format string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(format, "%")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if strings.HasPrefix(rest, "%") {
			b.WriteByte('%')
			format = rest[1:]
			continue
		}
		conversion, unpadded := strings.CutPrefix(rest, "-")
		layout := ""
		if conversion != "" {
			layout = timeLayouts[conversion[0]]
		}
		if layout == "" {
			return "", unsupported(fmt.Sprintf("strftime_now: the conversion at the start of %.3q is", "%"+rest), "")
		}
		s := t.Format(layout)
		if unpadded {
			s = strings.TrimLeft(s[:len(s)-1], " 0") + s[len(s)-1:]
		}
		b.WriteString(s)
		format = conversion[1:]
	}
}
