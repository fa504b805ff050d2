package schema

import (
	"encoding/json"

	"github.com/ingot-run/ingot/engine/grammar/pattern"
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/source"
)

// own returns the values that a schema's own keywords allow: those about types, scalars, arrays and
// objects.
func (s *Schema) own(n *node) (*Set, error) {
	set, err := s.ownValues(n)
	if err != nil {
		return nil, err
	}
	return s.ownConstants(n, set)
}

// ownValues is own without enum and const.
func (s *Schema) ownValues(n *node) (*Set, error) {
	set, err := s.types(n)
	if err != nil {
		return nil, err
	}
	if !set.numbers.none() {
		numbers, err := s.ownNumbers(n, set.numbers.others != regex.Nothing)
		if err != nil {
			return nil, err
		}
		set.numbers = s.meetNumbers(set.numbers, numbers)
	}
	if !set.strings.none {
		if set.strings, err = s.ownStrings(n); err != nil {
			return nil, err
		}
	}
	if set.Arrays != nil {
		a, err := s.ownArray(n)
		if err != nil {
			return nil, err
		}
		set.Arrays = nil
		if a != nil {
			set.Arrays = []*Array{a}
		}
	}
	if set.Objects != nil {
		o, err := s.ownObject(n)
		if err != nil {
			return nil, err
		}
		set.Objects = nil
		if o != nil {
			set.Objects = []*Object{o}
		}
	}
	return set, nil
}

func (s *Schema) ownConstants(n *node, set *Set) (*Set, error) {
	for _, keyword := range []string{"enum", "const"} {
		value, ok := n.get(keyword)
		if !ok {
			continue
		}
		list := []any{value}
		if keyword == "enum" {
			if list, ok = value.([]any); !ok {
				return nil, n.fail(keyword, "must be an array")
			}
		}
		constants, err := s.constants(n, keyword, list)
		if err == nil {
			set, err = s.meet(constants, set)
		}
		if err != nil {
			return nil, err
		}
	}
	return set, nil
}

// types returns all values of the types that a schema allows.
func (s *Schema) types(n *node) (*Set, error) {
	value, ok := n.get("type")
	if !ok {
		return s.fullSet(), nil
	}
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	if isTrue(n.get("nullable")) { // of OpenAPI 3.0
		list = append(list[:len(list):len(list)], "null")
	}
	set, all := s.emptySet(), s.fullSet()
	for _, t := range list {
		switch t {
		case "null":
			set.Null = true
		case "boolean":
			set.False, set.True = true, true
		case "integer":
			set.numbers.integers = all.numbers.integers
		case "number":
			set.numbers = all.numbers
		case "string":
			set.strings = all.strings
		case "array":
			set.Arrays = all.Arrays
		case "object":
			set.Objects = all.Objects
		default:
			return nil, n.fail("type", "%v is not a type of JSON; null, boolean, integer, number, string, array and object are", quoteValue(t))
		}
	}
	return set, nil
}

func quoteValue(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "this"
	}
	return string(text)
}

func number(n *node, keyword string, value any) (decimal, error) {
	v, ok := value.(json.Number)
	if !ok {
		return decimal{}, n.fail(keyword, "must be a number")
	}
	d, ok := parseDecimal(v)
	if !ok {
		return decimal{}, n.fail(keyword, "the number has more than %d digits", maxDigits)
	}
	return d, nil
}

// bound returns the number of a keyword, or nil.
func bound(n *node, keyword string) (*decimal, error) {
	value, ok := n.get(keyword)
	if !ok {
		return nil, nil
	}
	d, err := number(n, keyword, value)
	return &d, err
}

// maxCount is the largest number of characters, items or properties of a keyword.
const maxCount = 1 << 24

// count returns the number of a keyword that counts, or absent.
func count(n *node, keyword string, absent int) (int, error) {
	value, ok := n.get(keyword)
	if !ok {
		return absent, nil
	}
	d, err := number(n, keyword, value)
	switch {
	case err != nil:
		return 0, err
	case !d.whole() || d.digits.Sign() < 0:
		return 0, n.fail(keyword, "must be a whole number that is not negative")
	case !d.digits.IsInt64() || d.digits.Int64() > maxCount:
		return 0, n.fail(keyword, "is more than %d, the largest count that is supported", maxCount)
	}
	return int(d.digits.Int64()), nil
}

// counts returns the numbers of two keywords, the latter -1 if it is absent.
func counts(n *node, least, most string) (lo, hi int, err error) {
	if lo, err = count(n, least, 0); err == nil {
		hi, err = count(n, most, -1)
	}
	return lo, hi, err
}

// ownNumbers may leave out numbers that are not whole, unless fractions is set.
func (s *Schema) ownNumbers(n *node, fractions bool) (numberSet, error) {
	lo, err := s.limit(n, "minimum", "exclusiveMinimum", +1)
	if err != nil {
		return numberSet{}, err
	}
	hi, err := s.limit(n, "maximum", "exclusiveMaximum", -1)
	if err != nil {
		return numberSet{}, err
	}
	out := s.number.all
	if lo.others != nil || hi.others != nil {
		out = numberSet{integers: s.integersBetween(lo.integers, hi.integers), others: s.othersBetween(lo.others, hi.others)}
	}
	factor, err := bound(n, "multipleOf")
	if factor == nil || err != nil {
		return out, err
	}
	if factor.digits.Sign() <= 0 {
		return out, n.fail("multipleOf", "must be above 0")
	}
	out, err = s.multiples(*factor, out, fractions)
	if err != nil {
		return out, n.fail("multipleOf", "%v", err)
	}
	if s.hardMultiples(out) {
		return out, n.fail("multipleOf", "%v", errJoint)
	}
	return out, nil
}

// limits is a bound of numbers. That of whole numbers differs if it is exclusive.
type limits struct{ integers, others *decimal }

// limit reads a bound and its exclusive form, which in draft 4 is a boolean. direction points to
// the numbers within.
func (s *Schema) limit(n *node, keyword, exclusive string, direction int) (limits, error) {
	at, err := bound(n, keyword)
	if err != nil {
		return limits{}, err
	}
	out := limits{at, at}
	value, ok := n.get(exclusive)
	flag, isFlag := value.(bool)
	if !ok || isFlag && !flag {
		return out, nil
	}
	open := at
	if !isFlag {
		if open, err = bound(n, exclusive); err != nil {
			return limits{}, err
		}
	}
	if open == nil { // true without a bound
		return out, nil
	}
	whole := open.reduced()
	if whole.whole() {
		whole = decimal{addInt(whole.digits, direction), 0}
	}
	beside := open.beside(direction)
	if at == nil || at.compare(*open)*direction <= 0 {
		return limits{&whole, &beside}, nil
	}
	return out, nil
}

func (s *Schema) ownStrings(n *node) (stringSet, error) {
	lo, hi, err := counts(n, "minLength", "maxLength")
	if err != nil {
		return noString, err
	}
	out := s.meetStrings(anyString, stringSet{min: lo, max: hi, body: anyString.body})
	if value, ok := n.get("pattern"); ok {
		text, ok := value.(string)
		if !ok {
			return noString, n.fail("pattern", "must be a string")
		}
		body, err := pattern.Search(s.re, text, pattern.ECMA, Quoted{})
		if err != nil {
			return noString, n.failWith("pattern", err)
		}
		out = s.meetStrings(out, bodyStrings(body))
	}
	value, ok := n.get("format")
	if !ok {
		return out, nil
	}
	name, ok := value.(string)
	if !ok {
		return noString, n.fail("format", "must be a string")
	}
	body, err := s.format(name)
	if err != nil {
		return noString, n.failWith("format", err)
	}
	return s.meetStrings(out, stringSet{max: -1, body: body}), nil
}

// failWith returns err as an error about a keyword.
func (n *node) failWith(keyword string, err error) error {
	return &source.Error{Path: n.path(keyword), Message: err.Error()}
}
