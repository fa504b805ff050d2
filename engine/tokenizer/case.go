package tokenizer

// caseSplit is, with C for (?i:'s|'t|'re|'ve|'m|'ll|'d)? if contractions is set, or else for nothing, and the given maximum of digits,
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+C|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*C|
//	\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// which matches everywhere. A word is divided before a capital that follows small letters.
func caseSplit(digits int, contractions bool) matcher {
	return func(s string, i int) (int, bool) {
		t := classes()
		if end := casedWord(t, s, i); end > i {
			if contractions {
				end += contraction(s[end:], true)
			}
			return end, true
		}
		c, width := t.at(s, i)
		if c&number != 0 {
			return upTo(t, s, i, number, digits), true
		}
		next, nextWidth := t.at(s, i+width)
		switch {
		case c&space == 0:
			return lineEndsAndSlashes(s, t.others(s, i)), true
		case s[i] == ' ' && nextWidth > 0 && next&(space|letter|number) == 0:
			return lineEndsAndSlashes(s, t.others(s, i+1)), true
		}
		return spacesOrLines(t, s, i), true
	}
}

// casedWord returns the end of a match of the first two alternatives of caseSplit, without a contraction; i if there is none.
func casedWord(t *classTable, s string, i int) int {
	after := i // the end of the optional character before the word
	if c, width := t.at(s, i); c&(letter|number) == 0 && s[i] != '\r' && s[i] != '\n' {
		after = i + width
	}
	for _, from := range []int{after, i} {
		if end := capitalsThenSmall(t, s, from); end > 0 {
			return end
		}
	}
	for _, from := range []int{after, i} {
		if end := runOfCase(t, s, from, lower); end > from {
			return runOfCase(t, s, end, upper)
		}
	}
	return i
}

// capitalsThenSmall returns the end of letters without small ones that are followed by at least one letter that is not a capital; 0
// if there are no such letters. Letters without case belong to either part.
func capitalsThenSmall(t *classTable, s string, from int) int {
	last := 0 // the end of the last letter without case, or mark, before the first small letter
	for i := from; ; {
		c, width := t.at(s, i)
		switch {
		case c&lower != 0:
			return runOfCase(t, s, i, upper)
		case c&(letter|mark) == 0:
			return last
		}
		i += width
		if c&upper == 0 {
			last = i
		}
	}
}

// runOfCase returns the end of the letters and marks from i on that do not have the unwanted case.
func runOfCase(t *classTable, s string, i int, unwanted class) int {
	for {
		c, width := t.at(s, i)
		if c&(letter|mark) == 0 || c&unwanted != 0 {
			return i
		}
		i += width
	}
}

// lineEndsAndSlashes is [\r\n/]*.
func lineEndsAndSlashes(s string, i int) int {
	for i < len(s) && (s[i] == '\r' || s[i] == '\n' || s[i] == '/') {
		i++
	}
	return i
}
