package where

import (
	"encoding/base64"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/parser/lexer"
)

// builtin is a function that expressions can call.
type builtin struct {
	least, most int     // number of arguments
	params      []kinds // kinds of the arguments; the last one is for all further arguments
	result      func(args []expr) static
	call        func(f *frame, args []any) any
}

func gives(k kind) func([]expr) static { return func([]expr) static { return static{kind: k} } }

// call reads the arguments of a function after those that come from a pipe.
func (p *parser) call(name lexer.Token, args []expr) expr {
	if d := predicates[name.Value]; d != nil {
		return p.predicated(name.Value, d, args, name.From)
	}
	p.node()
	b, ok := functions[name.Value]
	args = p.arguments(args)
	if !ok {
		if p.known(name.Value) || slices.ContainsFunc(p.scopes, func(v variable) bool { return v.name == name.Value }) {
			return p.refuse(name.From, "%s is not a function", name.Value)
		}
		return p.refuse(name.From, "unknown name %s", name.Value)
	}
	switch {
	case len(args) < b.least:
		return p.refuse(name.From, "not enough arguments to call %v", name.Value)
	case len(args) > b.most:
		return p.refuse(name.From, "too many arguments to call %v", name.Value)
	}
	param := func(i int) kinds { return b.params[min(i, len(b.params)-1)] }
	for i, a := range args {
		if a.kind != unknown && !param(i).has(a.kind) {
			return p.refuse(a.at, "invalid argument for %s (type %s)", name.Value, a.static)
		}
	}
	return expr{static: b.result(args), at: name.From, run: func(f *frame) any {
		values := make([]any, len(args))
		for i, a := range args {
			values[i] = a.run(f)
		}
		f.at = name.From
		for i, v := range values {
			if !param(i).has(kindOf(v)) {
				fail("invalid argument for %s (type %T)", name.Value, v)
			}
		}
		return b.call(f, values)
	}}
}

// onText is a function of texts and, from the argument with index numbersAt on, of whole numbers.
func onText(least, most, numbersAt int, result kind, call func(s []string, n []int) any) builtin {
	b := builtin{least: least, most: most, result: gives(result)}
	for i := range most {
		if i < numbersAt {
			b.params = append(b.params, texts)
		} else {
			b.params = append(b.params, numbers)
		}
	}
	b.call = func(_ *frame, args []any) any {
		var s []string
		var n []int
		for i, a := range args {
			if i < numbersAt {
				s = append(s, a.(string))
			} else {
				n = append(n, integerOf(a))
			}
		}
		return call(s, n)
	}
	return b
}

// optional returns the argument with index i, or def if there are fewer arguments.
func optional[T any](args []T, i int, def T) T {
	if i < len(args) {
		return args[i]
	}
	return def
}

// onWord is a function of one text.
func onWord(result kind, call func(string) any) builtin {
	return onText(1, 1, 1, result, func(s []string, _ []int) any { return call(s[0]) })
}

// onPair is a function of two texts.
func onPair(result kind, call func(a, b string) any) builtin {
	return onText(2, 2, 2, result, func(s []string, _ []int) any { return call(s[0], s[1]) })
}

// rounding is a function from a number to a float.
func rounding(call func(float64) float64) builtin {
	return builtin{1, 1, []kinds{numbers}, gives(float), func(_ *frame, args []any) any {
		_, v, _, _ := number(args[0])
		return call(v)
	}}
}

// onBits is a function of whole numbers.
func onBits(n int, call func(x, y int) int) builtin {
	return builtin{n, n, []kinds{integers}, gives(integer), func(_ *frame, args []any) any {
		var y int
		if n == 2 {
			y = integerOf(args[1])
		}
		return call(integerOf(args[0]), y)
	}}
}

func shift(call func(x, y int) int) builtin {
	return onBits(2, func(x, y int) int {
		if y < 0 {
			fail("invalid operation: negative shift count %d (type int)", y)
		}
		return call(x, y)
	})
}

// onList is a function of lists.
func onList(most int, result func([]expr) static, call func(f *frame, lists [][]any) any) builtin {
	return builtin{1, most, []kinds{lists}, result, func(f *frame, args []any) any {
		all := make([][]any, len(args))
		for i, a := range args {
			all[i], _ = elements(a)
			f.use(len(all[i]))
		}
		return call(f, all)
	}}
}

func onMap(call func(keys, values []any) any) builtin {
	return builtin{1, 1, []kinds{objects}, gives(list), func(_ *frame, args []any) any {
		return call(entries(args[0]))
	}}
}

// aggregate is a function of numbers and of lists of numbers, which may be nested.
func aggregate(name string, result func([]expr) static, call func(all []any) any) builtin {
	var flat func(v any) []any
	flat = func(v any) (all []any) {
		if isNumber(v) {
			return []any{v}
		}
		list, ok := elements(v)
		if !ok {
			fail("invalid argument for %s (type %T)", name, v)
		}
		for _, e := range list {
			all = append(all, flat(e)...)
		}
		return all
	}
	return builtin{1, math.MaxInt, []kinds{numbers | lists | setOf(null)}, result, func(_ *frame, args []any) any {
		if len(args) == 1 && args[0] == nil {
			return nil
		}
		return call(flat(args))
	}}
}

func same(args []expr) static { return args[0].static }

func ofElement(args []expr) static { return static{kind: args[0].elem} }

var functions = map[string]builtin{
	"len": {1, 1, []kinds{texts | lists | objects}, gives(integer), func(_ *frame, args []any) any {
		if s, ok := args[0].(string); ok {
			return utf8.RuneCountInString(s)
		}
		return reflect.ValueOf(args[0]).Len()
	}},
	"type":   {1, 1, []kinds{anything}, gives(text), func(_ *frame, args []any) any { return typeOf(args[0]) }},
	"string": {1, 1, []kinds{anything}, gives(text), func(_ *frame, args []any) any { return textOfValue(args[0]) }},
	"int":    {1, 1, []kinds{numbers | texts | setOf(duration)}, gives(integer), func(_ *frame, args []any) any { return toInt(args[0]) }},
	"float":  {1, 1, []kinds{numbers | texts}, gives(float), func(_ *frame, args []any) any { return toFloat(args[0]) }},

	"abs": {1, 1, []kinds{numbers}, same, func(_ *frame, args []any) any {
		if _, f, _, _ := number(args[0]); f < 0 {
			return signed("-", args[0])
		}
		return args[0]
	}},
	"ceil":   rounding(math.Ceil),
	"floor":  rounding(math.Floor),
	"round":  rounding(math.Round),
	"max":    aggregate("max", gives(unknown), extreme(1)),
	"min":    aggregate("min", gives(unknown), extreme(-1)),
	"mean":   aggregate("mean", gives(unknown), mean),
	"median": aggregate("median", gives(unknown), median),

	"bitand":  onBits(2, func(x, y int) int { return x & y }),
	"bitor":   onBits(2, func(x, y int) int { return x | y }),
	"bitxor":  onBits(2, func(x, y int) int { return x ^ y }),
	"bitnand": onBits(2, func(x, y int) int { return x &^ y }),
	"bitnot":  onBits(1, func(x, _ int) int { return ^x }),
	"bitshl":  shift(func(x, y int) int { return x << y }),
	"bitshr":  shift(func(x, y int) int { return x >> y }),
	"bitushr": shift(func(x, y int) int { return int(uint(x) >> y) }), //nolint:gosec // the bits are what counts

	"upper": onWord(text, func(s string) any { return strings.ToUpper(s) }),
	"lower": onWord(text, func(s string) any { return strings.ToLower(s) }),
	"trim": onText(1, 2, 2, text, func(s []string, _ []int) any {
		if len(s) == 1 {
			return strings.TrimSpace(s[0])
		}
		return strings.Trim(s[0], s[1])
	}),
	"trimPrefix": onText(1, 2, 2, text, func(s []string, _ []int) any { return strings.TrimPrefix(s[0], optional(s, 1, " ")) }),
	"trimSuffix": onText(1, 2, 2, text, func(s []string, _ []int) any { return strings.TrimSuffix(s[0], optional(s, 1, " ")) }),
	"split": onText(2, 3, 2, list, func(s []string, n []int) any {
		return withTexts(strings.SplitN(s[0], s[1], optional(n, 0, -1)))
	}),
	"splitAfter": onText(2, 3, 2, list, func(s []string, n []int) any {
		return withTexts(strings.SplitAfterN(s[0], s[1], optional(n, 0, -1)))
	}),
	"replace": onText(3, 4, 3, text, func(s []string, n []int) any {
		return strings.Replace(s[0], s[1], s[2], optional(n, 0, -1))
	}),
	"repeat":      {2, 2, []kinds{texts, numbers}, gives(text), repeat},
	"join":        {1, 2, []kinds{lists, texts}, gives(text), join},
	"indexOf":     onPair(integer, func(a, b string) any { return strings.Index(a, b) }),
	"lastIndexOf": onPair(integer, func(a, b string) any { return strings.LastIndex(a, b) }),
	"hasPrefix":   onPair(boolean, func(a, b string) any { return strings.HasPrefix(a, b) }),
	"hasSuffix":   onPair(boolean, func(a, b string) any { return strings.HasSuffix(a, b) }),

	"toJSON":     {1, 1, []kinds{anything}, gives(text), toJSON},
	"fromJSON":   onWord(unknown, fromJSON),
	"toBase64":   onWord(text, func(s string) any { return base64.StdEncoding.EncodeToString([]byte(s)) }),
	"fromBase64": onWord(text, fromBase64),

	"now":      {0, 1, []kinds{setOf(zone)}, gives(instant), now},
	"date":     {1, 4, []kinds{texts | setOf(zone), texts}, gives(instant), date},
	"duration": onWord(duration, parseDuration),
	"timezone": onWord(zone, func(s string) any { return location(s) }),

	"first": {1, 1, []kinds{anything}, ofElement, end(0)},
	"last":  {1, 1, []kinds{anything}, ofElement, end(-1)},
	"get":   {2, 2, []kinds{anything}, ofElement, get},
	"take":  {2, 2, []kinds{lists, integers}, same, take},
	"sort":  {1, 2, []kinds{lists | setOf(null), texts}, same, sorted},
	"reverse": onList(1, same, func(_ *frame, lists [][]any) any {
		made := slices.Clone(lists[0])
		slices.Reverse(made)
		return made
	}),
	"uniq":    onList(1, same, unique),
	"concat":  onList(math.MaxInt, gives(list), func(_ *frame, lists [][]any) any { return slices.Concat(lists...) }),
	"flatten": onList(1, gives(list), func(_ *frame, lists [][]any) any { return append([]any{}, flatten(lists[0])...) }),

	"keys":   onMap(func(keys, _ []any) any { return append([]any{}, keys...) }),
	"values": onMap(func(_, values []any) any { return append([]any{}, values...) }),
	"toPairs": onMap(func(keys, values []any) any {
		made := make([]any, len(keys))
		for i, k := range keys {
			made[i] = []any{k, values[i]}
		}
		return made
	}),
	"fromPairs": onList(1, gives(mapping), fromPairs),
}
