package openai

import (
	"maps"
	"slices"
	"strings"
)

// renameAliases renames fields that were given under an alias. Errors name the alias.
func (o *object) renameAliases() {
	for _, f := range fields {
		for _, alias := range f.Aliases {
			if !o.has(alias) {
				continue
			}
			if o.has(f.Name) {
				o.fail(CodeInvalidValue, "%q and %q are names of the same setting: give one", o.named(f.Name), alias)
			}
			if o.given == nil {
				o.given = map[string]string{}
			}
			o.given[f.Name] = alias
			o.fields[f.Name] = o.fields[alias]
			delete(o.fields, alias)
		}
	}
}

// odd returns the names of the fields that reach neither the engine nor the chat template, in
// alphabetical order.
func (o *object) odd(e Endpoint) []string {
	var names []string
	for name := range o.fields {
		if !slices.ContainsFunc(fields, func(f *Field) bool { return f.Name == name && f.on(e) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// unknown returns the error of the alphabetically first unknown field, since such a field may be
// meant to change the answer. It returns nil if all fields are known or inert.
func (o *object) unknown(e Endpoint) *Error {
	for _, name := range o.odd(e) {
		if !o.has(name) || slices.Contains(inert, name) {
			continue
		}
		if err := o.unknownField(name); err != nil {
			return err
		}
	}
	return nil
}

func (o *object) unknownField(name string) *Error {
	for _, f := range unsupported {
		if f.field != name {
			continue
		}
		if !f.ignorable || slices.Contains(f.neutral, compact(o.fields[name])) {
			return nil // refuse has set an error if a field that is not ignorable has an effect
		}
		return errorf(CodeUnsupported, "%q is not supported: %s", name, f.instead)
	}
	for _, f := range fields {
		if f.Name == name {
			return errorf(CodeUnsupported, "%q is not supported: it is a field of %s", name, f.Only)
		}
	}
	if near := nearest(name, fieldNames()); near != "" {
		return errorf(CodeUnknown, "%.100q is unknown: did you mean %q?", name, near)
	}
	return errorf(CodeUnknown, "%.100q is unknown: remove it", name)
}

// only notes an error about the alphabetically first field that is none of the given ones. It is
// for objects inside a request; CheckUnknown returns the error.
func (o *object) only(names ...string) {
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if o.nested != nil || !o.has(name) || slices.Contains(names, name) {
			continue
		}
		o.nested = errorf(CodeUnknown, "%.100q is unknown: remove it", o.named(name))
		if near := nearest(name, names); near != "" {
			o.nested = errorf(CodeUnknown, "%.100q is unknown: did you mean %q?", o.named(name), near)
		}
	}
}

// misplaced returns the error of the alphabetically first field that stands next to "body", but
// would change the answer only inside "body". It returns nil if there is no such field.
func (o *object) misplaced() *Error {
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if !o.has(name) || slices.Contains(inert, name) || name == "model" {
			continue
		}
		if slices.Contains(fieldNames(), name) {
			return errorf(CodeUnknown, `%q stands next to "body", where it has no effect: move it into "body"`, name)
		}
	}
	return nil
}

func fieldNames() []string {
	var names, aliases []string
	for _, f := range fields {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
		aliases = append(aliases, f.Aliases...)
	}
	return append(names, aliases...)
}

// nearest returns the known name that is most similar to name; empty if more than a third of the
// characters differ.
func nearest(name string, known []string) string {
	best, found := (len(name)+1)/3+1, ""
	for _, f := range known {
		if len(name)-len(f) >= best { // so much must be deleted at least; a long name would take minutes
			continue
		}
		if d := distance(strings.ToLower(name), f); d < best {
			best, found = d, f
		}
	}
	return found
}

// misspelt returns the name of the strict field that was probably meant, or an empty string.
func misspelt(name string) (meant string) {
	for _, f := range fields {
		switch d := len(name) - len(f.Name); {
		case f.Name == name:
			return ""
		case meant == "" && f.strict && d >= -2 && d <= 2 && distance(name, f.Name) <= 2:
			meant = f.Name
		}
	}
	return meant
}

// distance returns the Levenshtein distance: the number of characters to insert, delete or replace
// to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
