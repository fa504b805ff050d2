package where

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

func extreme(sign int) func([]any) any {
	return func(all []any) any {
		if len(all) == 0 {
			return nil
		}
		return slices.MaxFunc(all, func(a, b any) int { return sign * ordered("<", a, b) })
	}
}

func median(all []any) any {
	values := make([]float64, len(all))
	for i, v := range all {
		_, values[i], _, _ = number(v)
	}
	slices.Sort(values)
	switch n := len(values); {
	case n == 0:
		return 0.0
	case n%2 == 1:
		return values[n/2]
	default:
		return (values[n/2-1] + values[n/2]) / 2
	}
}

func mean(all []any) any {
	total := 0.0
	for _, v := range all {
		_, f, _, _ := number(v)
		total += f
	}
	return total / float64(max(1, len(all)))
}

func toInt(v any) any {
	if s, ok := v.(string); ok {
		i, err := strconv.Atoi(s)
		if err != nil {
			fail("invalid operation: int(%s)", s)
		}
		return i
	}
	if d, ok := v.(time.Duration); ok {
		return int(d)
	}
	return integerOf(v)
}

func toFloat(v any) any {
	if s, ok := v.(string); ok {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			fail("invalid operation: float(%s)", s)
		}
		return f
	}
	_, f, _, _ := number(v)
	return f
}

func typeOf(v any) string {
	switch v.(type) {
	case time.Month:
		return "time.Month"
	case time.Weekday:
		return "time.Weekday"
	}
	switch k := kindOf(v); k {
	case float:
		return "float"
	case list, binary:
		return "array"
	case object, mapping:
		return "map"
	case zone:
		return "unknown"
	default:
		return kindNames[k]
	}
}

func withTexts(parts []string) any {
	all := make([]any, len(parts))
	for i, s := range parts {
		all[i] = s
	}
	return all
}

func join(_ *frame, args []any) any {
	separator := ""
	if len(args) == 2 {
		separator = args[1].(string)
	}
	all, _ := elements(args[0])
	parts := make([]string, len(all))
	for i, v := range all {
		parts[i] = textOf(v, "with join")
	}
	return strings.Join(parts, separator)
}

func flatten(list []any) (all []any) {
	for _, v := range list {
		if inner, ok := elements(v); ok {
			all = append(all, flatten(inner)...)
		} else {
			all = append(all, v)
		}
	}
	return all
}

func fromPairs(_ *frame, lists [][]any) any {
	made := map[any]any{}
	for _, v := range lists[0] {
		pair, _ := elements(v)
		if len(pair) != 2 {
			fail("invalid pair %v", v)
		}
		made[hashable(pair[0])] = pair[1]
	}
	return made
}

func toJSON(_ *frame, args []any) any {
	made, err := json.MarshalIndent(withTextKeys(args[0]), "", "  ")
	if err != nil {
		fail("%v", err)
	}
	return string(made)
}

// withTextKeys turns maps with other keys than texts into maps that JSON has.
func withTextKeys(v any) any {
	switch v := v.(type) {
	case map[any]any:
		made := map[string]any{}
		for k, e := range v {
			made[textOfValue(k)] = withTextKeys(e)
		}
		return made
	case map[string]any:
		made := map[string]any{}
		for k, e := range v {
			made[k] = withTextKeys(e)
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i, e := range v {
			made[i] = withTextKeys(e)
		}
		return made
	}
	return v
}

func fromJSON(s string) (v any) {
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		fail("%v", err)
	}
	return v
}

func fromBase64(s string) any {
	made, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		fail("%v", err)
	}
	return string(made)
}

func repeat(f *frame, args []any) any {
	s, n := args[0].(string), integerOf(args[1])
	switch {
	case n < 0:
		fail("invalid argument for repeat (expected positive integer, got %d)", n)
	case n > maxMemory:
		fail("memory budget exceeded")
	}
	f.use(len(s) * n)
	return strings.Repeat(s, n)
}

func get(_ *frame, args []any) any {
	if v, ok := at(args[0], args[1]); ok {
		return v
	}
	if !objects.has(kindOf(args[0])) {
		return nil
	}
	v, _ := lookUp(args[0], args[1])
	return v
}

// end returns the element of a list at an index; nil if there is none.
func end(index int) func(*frame, []any) any {
	return func(_ *frame, args []any) any {
		v, _ := at(args[0], index)
		return v
	}
}

func take(_ *frame, args []any) any {
	all, _ := elements(args[0])
	n := integerOf(args[1])
	if n < 0 {
		fail("cannot take %d elements", n)
	}
	return all[:min(n, len(all))]
}

func sorted(f *frame, args []any) any {
	all, _ := elements(args[0])
	f.use(len(all))
	made := append([]any{}, all...)
	slices.SortStableFunc(made, inOrder(optional(args, 1, nil)))
	return made
}

func unique(_ *frame, lists [][]any) any {
	made := []any{}
	for _, v := range lists[0] {
		if !isIn(v, made) {
			made = append(made, v)
		}
	}
	return made
}

func now(_ *frame, args []any) any {
	if len(args) == 1 {
		return time.Now().In(args[0].(*time.Location))
	}
	return time.Now()
}

func location(name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		fail("%v", err)
	}
	return z
}

var layouts = []string{"2006-01-02", "15:04:05", "2006-01-02 15:04:05", time.RFC3339, time.RFC822, time.RFC850, time.RFC1123}

// date reads a time: [zone,] text[, layout[, name of a zone]].
func date(_ *frame, args []any) any {
	z, zoned := args[0].(*time.Location)
	if zoned {
		args = args[1:]
	}
	var parts []string
	for _, a := range args {
		parts = append(parts, textOf(a, "as a date"))
	}
	if len(parts) == 0 {
		fail("not enough arguments to call date")
	}
	if len(parts) == 3 {
		z, zoned = location(parts[2]), true
	}
	allowed := layouts
	if len(parts) > 1 {
		allowed = parts[1:2]
	}
	if !zoned {
		z = time.UTC
	}
	for _, layout := range allowed {
		t, err := time.ParseInLocation(layout, parts[0], z)
		if err == nil {
			return t
		}
		if len(parts) > 1 {
			fail("%v", err)
		}
	}
	fail("invalid date %s", parts[0])
	return nil
}

func parseDuration(s string) any {
	d, err := time.ParseDuration(s)
	if err != nil {
		fail("%v", err)
	}
	return d
}

// textOfValue is the result of string().
func textOfValue(v any) string { return fmt.Sprintf("%v", v) }
