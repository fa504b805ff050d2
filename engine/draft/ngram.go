package draft

import "slices"

// Orders of the n-grams in the tables; the longest that matches is used.
const (
	longestNGram  = 4
	shortestNGram = 2
)

// ngrams drafts from a sequence's own text (prompt look-up decoding): it finds the last place where the text's last tokens
// occurred before, and guesses the tokens that followed them there. A search takes constant time, the tables four bytes a
// token and order.
type ngrams struct {
	seen  int     // tokens whose n-grams are in the tables
	slots int     // of a table, a power of two
	table []int32 // a table an order, one after another
}

// maxSlots bounds a table to 256 KiB. In a text of more tokens, later n-grams overwrite earlier ones. Tables are sized by the
// limit of a sequence, which few reach.
const maxSlots = 1 << 16

// newNGrams returns ngrams for texts of up to the given number of tokens.
func newNGrams(tokens int) *ngrams {
	slots := slotsFor(tokens)
	return &ngrams{slots: slots, table: make([]int32, (longestNGram-shortestNGram+1)*slots)}
}

func slotsFor(tokens int) int {
	slots := 16
	for slots < min(2*tokens, maxSlots) {
		slots *= 2
	}
	return slots
}

// NGramBytes is the memory of the n-gram tables of a sequence of up to the given number of tokens.
func NGramBytes(tokens int) int64 {
	return int64(4 * (longestNGram - shortestNGram + 1) * slotsFor(tokens))
}

// Draft appends up to limit guesses of what follows tokens to dst. Each call's text has to begin with that of the call before.
func (g *ngrams) Draft(dst, tokens []int32, limit int) []int32 {
	g.learn(tokens)
	for n := longestNGram; n >= shortestNGram; n-- {
		if n > len(tokens) {
			continue
		}
		suffix := tokens[len(tokens)-n:]
		at := int(g.table[g.slot(suffix)]) // index of the token after the n-gram; 0 for none
		if at < n || at >= len(tokens) || !slices.Equal(tokens[at-n:at], suffix) {
			continue
		}
		// A match that reaches the end is a repetition, which continues in the drafts.
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

// learn adds the n-grams before each token that is new since the last call.
func (g *ngrams) learn(tokens []int32) {
	for at := max(g.seen, 1); at < len(tokens); at++ {
		for n := shortestNGram; n <= min(longestNGram, at); n++ {
			g.table[g.slot(tokens[at-n:at])] = int32(at)
		}
	}
	g.seen = max(g.seen, len(tokens))
}

// slot is the index of an n-gram in the tables. Different n-grams can share one, so Draft compares the tokens.
func (g *ngrams) slot(gram []int32) int {
	h := uint64(14695981039346656037) // FNV-1a over whole tokens
	for _, t := range gram {
		h = (h ^ uint64(uint32(t))) * 1099511628211
	}
	h ^= h >> 29
	return (len(gram)-shortestNGram)*g.slots + int(h)&(g.slots-1)
}
