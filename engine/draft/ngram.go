// Package draft decides what to guess: n-gram look-up in a sequence's own text, how often guesses prove right, and how many
// of them pay at the present batch size. Whether a guess is kept is the sampler's choice alone, so nothing in this package
// can change a token.
package draft

import "slices"

// Orders of n-grams that are looked up, longest first.
const (
	longestNGram  = 4
	shortestNGram = 2
)

// NGram drafts from a sequence's own text: where its last tokens stood before, what followed then is the guess (prompt
// look-up decoding). It finds the latest such place in constant time and keeps four bytes a token and order.
type NGram struct {
	seen  int     // tokens whose n-grams are in the tables
	slots int     // of a table, a power of two
	table []int32 // a table an order, one after another
}

// mostSlots bounds a table, to 256 KiB: in a text of more tokens, later n-grams take the places of earlier ones. Many sequences
// may be as long as their context allows, and hardly any is.
const mostSlots = 1 << 16

// NewNGram returns an NGram for texts of up to the given number of tokens.
func NewNGram(tokens int) *NGram {
	slots := 16
	for slots < min(2*tokens, mostSlots) {
		slots *= 2
	}
	return &NGram{slots: slots, table: make([]int32, (longestNGram-shortestNGram+1)*slots)}
}

// Draft appends up to limit guesses of what follows tokens to dst. Each call has to continue the text of the one before.
func (g *NGram) Draft(dst, tokens []int32, limit int) []int32 {
	g.learn(tokens)
	for n := longestNGram; n >= shortestNGram; n-- {
		if n > len(tokens) {
			continue
		}
		suffix := tokens[len(tokens)-n:]
		at := int(g.table[g.slot(suffix)]) // what followed starts here; 0 where nothing was seen
		if at < n || at >= len(tokens) || !slices.Equal(tokens[at-n:at], suffix) {
			continue
		}
		// A match that overlaps the end is a repetition, and goes on in what has been drafted.
		start := len(dst)
		for i := range limit {
			if at+i < len(tokens) {
				dst = append(dst, tokens[at+i])
			} else {
				dst = append(dst, dst[start+at+i-len(tokens)])
			}
		}
		return dst
	}
	return dst
}

// learn notes, for each token that has come since the last call, the n-grams before it.
func (g *NGram) learn(tokens []int32) {
	for at := max(g.seen, 1); at < len(tokens); at++ {
		for n := shortestNGram; n <= min(longestNGram, at); n++ {
			g.table[g.slot(tokens[at-n:at])] = int32(at)
		}
	}
	g.seen = max(g.seen, len(tokens))
}

// slot is where an n-gram is kept. A later n-gram takes the place of an earlier one; Draft compares the tokens.
func (g *NGram) slot(gram []int32) int {
	h := uint64(14695981039346656037) // FNV-1a over whole tokens
	for _, t := range gram {
		h = (h ^ uint64(uint32(t))) * 1099511628211
	}
	h ^= h >> 29
	return (len(gram)-shortestNGram)*g.slots + int(h)&(g.slots-1)
}
