package tokenizer

// caseSplit returns a matcher for the following expression, which matches at every position. In the
// expression, C stands for (?i:'s|'t|'re|'ve|'m|'ll|'d)? if contractions is true, and for nothing
// otherwise. digits is the maximum number of digits in a piece.
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+C|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*C|
//	\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// The expression splits a word before an upper-case letter that follows lower-case letters, as in
// foo|Bar.
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

// casedWord returns the end of a match of the first two alternatives of caseSplit, without a
// contraction; i if there is no match.
func casedWord(t *classTable, s string, i int) int {
	after := i // end of the optional character before the word
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

// capitalsThenSmall returns the end of a match of
// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+; 0 if there is no match.
func capitalsThenSmall(t *classTable, s string, from int) int {
	last := 0 // end of the last mark or letter without case before the first small letter
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

// runOfCase returns the end of the run of letters and marks that begins at i. A letter of the
// unwanted case ends the run.
func runOfCase(t *classTable, s string, i int, unwanted class) int {
	for {
		c, width := t.at(s, i)
		if c&(letter|mark) == 0 || c&unwanted != 0 {
			return i
		}
		i += width
	}
}

// lineEndsAndSlashes returns the end of a match of [\r\n/]* at i.
func lineEndsAndSlashes(s string, i int) int {
	for i < len(s) && (s[i] == '\r' || s[i] == '\n' || s[i] == '/') {
		i++
	}
	return i
}
