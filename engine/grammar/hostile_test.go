package grammar

import (
	"fmt"
	"math"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
)

// hostile is a constraint that is made to take long or much memory.
type hostile struct {
	name string
	generation.Constraint
}

// hostiles returns families of hostile constraints, each from small to far too large.
func hostiles() []hostile {
	var list []hostile
	for _, f := range []struct {
		name  string
		sizes []int
		make  func(n int) generation.Constraint
	}{
		{"schema: nested arrays", sizes(1, 10_000, 14), nestedArrays},
		{"schema: nested objects", sizes(1, 10_000, 14), nestedObjects},
		{"schema: nested anyOf", sizes(1, 300, 10), nestedAnyOf},
		{"schema: nested not", sizes(1, 300, 10), nestedNot},
		{"schema: large counts of items", sizes(1, 1<<30, 16), itemCounts},
		{"schema: nested counts", sizes(2, 100_000, 12), nestedCounts},
		{"schema: large lengths", sizes(1, 1<<30, 12), lengths},
		{"schema: many properties", sizes(1, 40_000, 14), manyProperties},
		{"schema: many required", sizes(1, 20_000, 12), manyRequired},
		{"schema: minProperties", sizes(1, 400, 10), propertyCounts},
		{"schema: large enum", sizes(1, 60_000, 14), largeEnum},
		{"schema: enum of objects", sizes(1, 4_000, 10), objectEnum},
		{"schema: anyOf of alike objects", sizes(1, 4_000, 14), alikeObjects},
		{"schema: product of anyOf", sizes(1, 24, 16), productOfAnyOf},
		{"schema: oneOf of open objects", sizes(1, 200, 12), openOneOf},
		{"schema: if chains", sizes(1, 100, 10), ifChain},
		{"schema: dependent", sizes(1, 100, 10), dependents},
		{"schema: chain of references", sizes(1, 5_000, 12), refChain},
		{"schema: references that double", sizes(1, 200, 12), refDoubling},
		{"schema: allOf that doubles", sizes(1, 200, 12), allOfDoubling},
		{"schema: recursion without base", sizes(1, 500, 8), withoutBase},
		{"schema: references in a circle", sizes(1, 500, 8), refCircle},
		{"schema: patterns that meet", sizes(1, 60, 14), meetingPatterns},
		{"schema: patterns of remainders", sizes(1, 12, 10), coprimePatterns},
		{"schema: many patternProperties", sizes(1, 60, 14), manyPatterns},
		{"schema: multiples that meet", sizes(1, 12, 10), meetingMultiples},
		{"schema: long numbers", sizes(1, 2_000, 10), longNumbers},
		{"schema: contains", sizes(1, 200, 10), manyContains},
		{"schema: unique items", sizes(1, 64, 10), uniqueValues},
		{"schema: recursive anyOf", sizes(1, 200, 10), recursiveAnyOf},
		{"schema: prefixItems", sizes(1, 30_000, 12), manyPrefix},
		{"regex: nested groups", sizes(1, 20_000, 12), nestedGroups},
		{"regex: nested repeats", sizes(1, 14, 14), nestedRepeats},
		{"regex: nested stars", sizes(1, 150, 10), nestedStars},
		{"regex: (a|b)*a(a|b){n}", sizes(1, 100_000, 16), exponentialStates},
		{"regex: many alternatives", sizes(1, 8_000, 12), manyAlternatives},
		{"regex: classes of Unicode", sizes(1, 1_000, 12), unicodeClasses},
		{"regex: look-aheads that meet", sizes(1, 60, 14), meetingLookAheads},
		{"regex: not of counts", sizes(1, 10_000, 12), notOfCounts},
		{"regex: optional chains", sizes(1, 20_000, 14), optionalChain},
		{"regex: folded", sizes(1, 10_000, 10), foldedClasses},
		{"regex: word boundaries", sizes(1, 100, 10), boundaries},
		{"choices: many", sizes(1, 60_000, 12), manyChoices},
		{"choices: long", sizes(1, 1<<20, 10), longChoices},
		{"grammar: many rules", sizes(1, 20_000, 12), manyRules},
		{"grammar: rules that double", sizes(1, 60, 14), ruleDoubling},
		{"grammar: terminals that double", sizes(1, 60, 14), terminalDoubling},
		{"grammar: ambiguous", sizes(1, 200, 12), ambiguous},
		{"grammar: nested counts", sizes(1, 12, 12), ruleCounts},
		{"grammar: nested groups", sizes(1, 20_000, 12), ruleGroups},
		{"grammar: empty rules", sizes(1, 2_000, 12), emptyRules},
		{"grammar: left recursion", sizes(1, 2_000, 12), leftRecursion},
		{"grammar: substrings", sizes(1, 20_000, 12), substrings},
		{"grammar: GBNF", sizes(1, 5_000, 12), gbnfChain},
	} {
		for _, n := range f.sizes {
			list = append(list, hostile{fmt.Sprintf("%s, %d", f.name, n), f.make(n)})
		}
	}
	return list
}

// sizes returns count numbers from lo to hi, each about as many times the one before.
func sizes(lo, hi, count int) []int {
	var list []int
	for i := range count {
		n := int(float64(lo) * math.Pow(float64(hi)/float64(lo), float64(i)/float64(count-1)))
		if len(list) == 0 || n > list[len(list)-1] {
			list = append(list, n)
		}
	}
	return list
}

func schemaOf(text string) generation.Constraint { return generation.Constraint{Schema: text} }

func join(n int, separator string, item func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = item(i)
	}
	return strings.Join(list, separator)
}

func nest(n int, open, inner, closing string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
}

func nestedArrays(n int) generation.Constraint {
	return schemaOf(nest(n, `{"type":"array","items":`, "{}", "}"))
}

func nestedObjects(n int) generation.Constraint {
	return schemaOf(nest(n, `{"type":"object","required":["a"],"properties":{"a":`, "{}", "}}"))
}

func nestedAnyOf(n int) generation.Constraint {
	return schemaOf(nest(n, `{"anyOf":[{"required":["a"]},{"minLength":3},`, "{}", "]}"))
}

func nestedNot(n int) generation.Constraint {
	return schemaOf(nest(n, `{"not":{"properties":{"a":`, `{"pattern":"x"}`, "}}}"))
}

func itemCounts(n int) generation.Constraint {
	return schemaOf(fmt.Sprintf(`{"type":"array","minItems":%d,"maxItems":%d,"items":{"type":["object","string"]}}`, n/2, n))
}

func nestedCounts(n int) generation.Constraint {
	one := fmt.Sprintf(`{"type":"array","minItems":%d,"maxItems":%d,"items":`, n-1, n)
	return schemaOf(nest(6, one, `{"type":"object"}`, "}"))
}

func lengths(n int) generation.Constraint {
	return schemaOf(fmt.Sprintf(`{"type":"string","minLength":%d,"maxLength":%d,"pattern":"^(ab|c)*$"}`, n/2, n))
}

func manyProperties(n int) generation.Constraint {
	return schemaOf(`{"type":"object","properties":{` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`"p%d":{"type":"string"}`, i)
	}) + `}}`)
}

func manyRequired(n int) generation.Constraint {
	return schemaOf(`{"type":"object","required":[` + join(n, ",", func(i int) string { return fmt.Sprintf(`"p%d"`, i) }) + `]}`)
}

func propertyCounts(n int) generation.Constraint {
	return schemaOf(fmt.Sprintf(`{"minProperties":%d,"maxProperties":%d,"additionalProperties":false,"properties":{%s}}`, n/2, n*3/4,
		join(n, ",", func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) })))
}

func largeEnum(n int) generation.Constraint {
	return schemaOf(`{"enum":[` + join(n, ",", func(i int) string { return fmt.Sprintf(`"value %d of many",%d.5`, i*7919%n, i) }) + `]}`)
}

func objectEnum(n int) generation.Constraint {
	return schemaOf(`{"type":"object","enum":[` + join(n, ",", func(i int) string { return fmt.Sprintf(`{"a":{"b":[%d]}}`, i) }) + `]}`)
}

func alikeObjects(n int) generation.Constraint {
	return schemaOf(`{"anyOf":[` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`{"type":"object","properties":{"a":{"type":"string"},"b":{"const":%d}},"required":["a","b"]}`, i)
	}) + `]}`)
}

func productOfAnyOf(n int) generation.Constraint {
	return schemaOf(`{"type":"object","allOf":[` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`{"anyOf":[{"required":["a%d"]},{"required":["b%d"]}]}`, i, i)
	}) + `]}`)
}

func openOneOf(n int) generation.Constraint {
	return schemaOf(`{"oneOf":[` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`{"properties":{"a%d":{"type":"string"},"b%d":{"type":"number"},"c":{"minLength":%d}}}`, i, i/2, i)
	}) + `]}`)
}

func ifChain(n int) generation.Constraint {
	return schemaOf(`{"allOf":[` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`{"if":{"properties":{"k":{"const":%d}},"required":["k"]},"then":{"required":["v%d"]}}`, i, i)
	}) + `]}`)
}

func dependents(n int) generation.Constraint {
	return schemaOf(`{"dependentRequired":{` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`"a%d":["b%d"]`, i, i)
	}) + `}}`)
}

func refChain(n int) generation.Constraint {
	return schemaOf(`{"$ref":"#/$defs/d0","$defs":{` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1)
	}) + fmt.Sprintf(`,"d%d":{}}}`, n))
}

func refDoubling(n int) generation.Constraint {
	return schemaOf(`{"$ref":"#/$defs/d0","$defs":{` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`"d%d":{"type":"array","prefixItems":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}],"minItems":2}`, i, i+1, i+1)
	}) + fmt.Sprintf(`,"d%d":{}}}`, n))
}

func allOfDoubling(n int) generation.Constraint {
	return schemaOf(`{"$ref":"#/$defs/d0","$defs":{` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}],"required":["p%d"]}`, i, i+1, i+1, i)
	}) + fmt.Sprintf(`,"d%d":{}}}`, n))
}

func withoutBase(n int) generation.Constraint {
	return schemaOf(`{"$ref":"#/$defs/d0","$defs":{` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`"d%d":{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/d%d"}}}`, i, (i+1)%n)
	}) + `}}`)
}

func refCircle(n int) generation.Constraint {
	return schemaOf(`{"$ref":"#/$defs/d0","$defs":{` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"type":"null"}]}`, i, (i+1)%n)
	}) + `}}`)
}

func meetingPatterns(n int) generation.Constraint {
	return schemaOf(`{"type":"string","allOf":[` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`{"pattern":"[a-z]%c.{%d}x"}`, 'a'+i%26, i)
	}) + `]}`)
}

func coprimePatterns(n int) generation.Constraint {
	primes := []int{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}
	return schemaOf(`{"type":"string","minLength":1,"allOf":[` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`{"pattern":"^(?:a{%d})*$"}`, primes[i])
	}) + `]}`)
}

func manyPatterns(n int) generation.Constraint {
	return schemaOf(`{"patternProperties":{` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`"%c.*%c":{"minLength":%d}`, 'a'+i%26, 'b'+i%25, i)
	}) + `}}`)
}

func meetingMultiples(n int) generation.Constraint {
	primes := []int{9973, 9967, 9949, 9941, 9931, 9929, 9923, 9907, 9901, 9887, 9883, 9871}
	return schemaOf(`{"type":"integer","minimum":1,"allOf":[` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`{"multipleOf":%d}`, primes[i])
	}) + `]}`)
}

func longNumbers(n int) generation.Constraint {
	return schemaOf(fmt.Sprintf(`{"type":"number","minimum":-1%s.%s1,"exclusiveMaximum":1e%d}`,
		strings.Repeat("0", n), strings.Repeat("9", n), n))
}

func manyContains(n int) generation.Constraint {
	return schemaOf(`{"type":"array","allOf":[` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`{"contains":{"const":%d},"minContains":%d}`, i, 1+i%3)
	}) + `]}`)
}

func uniqueValues(n int) generation.Constraint {
	return schemaOf(`{"type":"array","uniqueItems":true,"items":{"enum":[` + join(n, ",", func(i int) string { return fmt.Sprint(i) }) + `]}}`)
}

func recursiveAnyOf(n int) generation.Constraint {
	return schemaOf(`{"anyOf":[` + join(n, ",", func(i int) string {
		return fmt.Sprintf(`{"type":"object","properties":{"a%d":{"$ref":"#"},"b":{"$ref":"#"}},"additionalProperties":{"$ref":"#"}}`, i)
	}) + `]}`)
}

func manyPrefix(n int) generation.Constraint {
	return schemaOf(`{"type":"array","prefixItems":[` + join(n, ",", func(i int) string { return fmt.Sprintf(`{"maxLength":%d}`, i) }) + `]}`)
}

func regexOf(text string) generation.Constraint { return generation.Constraint{Regex: text} }

func nestedGroups(n int) generation.Constraint  { return regexOf(nest(n, "(", "a", ")")) }
func nestedRepeats(n int) generation.Constraint { return regexOf(nest(n, "(?:", "a|ab", "){50,100}")) }
func nestedStars(n int) generation.Constraint   { return regexOf(nest(n, "(?:", "a|b", "*c?)*")) }

func exponentialStates(n int) generation.Constraint {
	return regexOf(fmt.Sprintf("(?:a|b)*a(?:a|b){%d}", n))
}

func manyAlternatives(n int) generation.Constraint {
	return regexOf(join(n, "|", func(i int) string { return fmt.Sprintf("[a-z]{%d}x%d.*", i%50, i) }))
}

func unicodeClasses(n int) generation.Constraint {
	classes := []string{`\p{L}`, `\p{Lu}`, `[^\p{N}]`, `\p{Han}`, `\p{Greek}`, `\W`, `\p{S}`}
	return regexOf(join(n, "", func(i int) string { return "(?:" + classes[i%len(classes)] + "|x)*" + classes[(i+1)%len(classes)] }))
}

func meetingLookAheads(n int) generation.Constraint {
	return regexOf(join(n, "", func(i int) string { return fmt.Sprintf(`(?=.*[%c-z].{%d}%c)`, 'a'+i%20, i, 'a'+i%26) }) + ".*")
}

func notOfCounts(n int) generation.Constraint {
	return regexOf(fmt.Sprintf(`(?!.*a.{%d}b.*$)(?!.*c.{%d}d)[a-d]*`, n, n/2))
}

func optionalChain(n int) generation.Constraint {
	return regexOf(strings.Repeat("a?", n) + strings.Repeat("a", n))
}

func foldedClasses(n int) generation.Constraint {
	return regexOf("(?i)" + join(n, "", func(i int) string { return `[\p{L}x]*` }))
}

func boundaries(n int) generation.Constraint {
	return regexOf(join(n, "", func(i int) string { return fmt.Sprintf(`(?:\b\w*|\B.{%d})\b.?`, i%7) }))
}

func manyChoices(n int) generation.Constraint {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%d choice %d", i*7919%n, i)
	}
	return generation.Constraint{Choices: list}
}

func longChoices(n int) generation.Constraint {
	return generation.Constraint{Choices: []string{strings.Repeat("ab", n), strings.Repeat("ab", n) + "c", "x"}}
}

func grammarOf(text string) generation.Constraint { return generation.Constraint{Grammar: text} }

func manyRules(n int) generation.Constraint {
	return grammarOf("start: r0\n" + join(n, "\n", func(i int) string {
		return fmt.Sprintf(`r%d: "(" r%d ")" | "x%d" r%d?`, i, (i+1)%n, i, i*31%n)
	}))
}

func ruleDoubling(n int) generation.Constraint {
	return grammarOf("start: r0\n" + join(n, "\n", func(i int) string { return fmt.Sprintf(`r%d: r%d r%d`, i, i+1, i+1) }) +
		fmt.Sprintf("\nr%d: \"x\" | \"y\" r0", n))
}

func terminalDoubling(n int) generation.Constraint {
	return grammarOf("start: T0\n" + join(n, "\n", func(i int) string { return fmt.Sprintf(`T%d: T%d /[a-%c]/ T%d`, i, i+1, 'a'+i%26, i+1) }) +
		fmt.Sprintf("\nT%d: \"x\"?", n))
}

func ambiguous(n int) generation.Constraint {
	return grammarOf("start: s\ns: s s | " + join(n, " | ", func(i int) string { return fmt.Sprintf("%q", strings.Repeat("a", i+1)) }))
}

func ruleCounts(n int) generation.Constraint {
	return grammarOf("start: r0\n" + join(n, "\n", func(i int) string { return fmt.Sprintf(`r%d: (r%d "x"){50,100}`, i, i+1) }) +
		fmt.Sprintf("\nr%d: \"(\" r0? \")\"", n))
}

func ruleGroups(n int) generation.Constraint {
	return grammarOf("start: " + nest(n, "(", `"a" start?`, ")"))
}

func emptyRules(n int) generation.Constraint {
	return grammarOf("start: r0*\n" + join(n, "\n", func(i int) string { return fmt.Sprintf(`r%d: r%d* r%d? "x"?`, i, (i+1)%n, i*7%n) }))
}

func leftRecursion(n int) generation.Constraint {
	return grammarOf("start: r0\n" + join(n, "\n", func(i int) string { return fmt.Sprintf(`r%d: r%d "a" | "b"`, i, (i+1)%n) }))
}

func substrings(n int) generation.Constraint {
	return grammarOf(`start: %regex {"substring_chars": "` + join(n, "", func(i int) string { return string(rune('a' + i*i%7)) }) + `"}`)
}

func gbnfChain(n int) generation.Constraint {
	return grammarOf("root ::= r0\n" + join(n, "\n", func(i int) string { return fmt.Sprintf(`r%d ::= [a-%c]* r%d? | "x" root`, i, 'a'+i%26, (i+1)%n) }))
}
