package grammar

import "github.com/ingot-run/ingot/engine/grammar/regex"

// Some expressions have so many states that nearly each place of a text is in a new one: in a text
// of `[a-z ]*e[a-z ]{100}`, any set of the last 100 letters may have been the e. The states of an
// answer are then of little use to other answers, but they would decide where the budgets of these
// end. So each answer of a grammar with such a lexeme has an automaton of its own, and whether it
// stays within the budgets depends on its tokens alone.

const (
	strollBytes = 512 // length of the text with which a lexeme is tried
	strollPart  = 64  // length of a part of it
	// manySteps is the number of steps of regex.Builder per byte of that text from which a lexeme
	// has many states. A counter takes 3, and `.*a.{30}` 6.
	manySteps = 10
	// maxStrolls bounds the bytes of all texts of a grammar.
	maxStrolls = 8 * strollBytes
	// ownShare is the share of Limits.StateBytes that the automaton of one answer may take, as a
	// divisor.
	ownShare = 4
)

// manyStates reports whether a lexeme has many states. Only those that count far can have them.
func (t *table) manyStates() bool {
	_, classes := t.re.Classes()
	left := maxStrolls
	for _, s := range t.symbols {
		if s.kind != kindLexeme || !t.re.Counts(s.lexeme) || left <= 0 {
			continue
		}
		t.re.Reset(strollBytes * manySteps)
		left -= stroll(t.re, s.lexeme, classes)
		if t.re.Err() != nil {
			t.re.Reset(0)
			return true
		}
	}
	return false
}

// stroll reads a text of a lexeme in which any byte that may come next is as probable as any other
// one. It stops where the states recur, and returns the number of bytes.
func stroll(re *regex.Builder, lexeme regex.Node, classes []byte) (bytes int) {
	at, random := lexeme, uint32(1)
	for before := -strollPart * manySteps; bytes < strollBytes && re.Err() == nil; bytes += strollPart {
		if bytes > strollPart && re.Work()-before < strollPart*manySteps/2 {
			break
		}
		before = re.Work()
		for range strollPart {
			random = random*1664525 + 1013904223
			if at = re.Derivative(at, pick(re.First(at), classes, int(random>>16))); at == regex.Nothing || at == regex.Empty {
				at = lexeme
			}
		}
	}
	return bytes
}

// pick returns one of the classes' bytes in set; 0 if there is none.
func pick(set regex.ByteSet, classes []byte, random int) byte {
	var in [256]byte
	n := 0
	for _, c := range classes {
		if set.Has(c) {
			in[n] = c
			n++
		}
	}
	return in[random%max(n, 1)]
}
