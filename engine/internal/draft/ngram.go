package draft

import "slices"

// The lengths of the n-grams in the tables. Draft uses the longest n-gram that matches.
const (
	longestNGram  = 4
	shortestNGram = 2
)

// ngrams drafts from a sequence's own text (prompt look-up decoding). It finds the latest earlier
// occurrence of the text's last tokens, and drafts the tokens that followed them there. A search
// takes constant time. See NGramBytes for the memory.
type ngrams struct {
	seen  int     // number of tokens whose n-grams are in the tables
	slots int     // number of entries in each table; a power of two
	table []int32 // the tables, one for each length of n-grams, one after another
}

// A table begins with minSlots entries and doubles as the text grows, up to maxSlots entries, which
// take 256 KiB. In longer texts, later n-grams overwrite more and more of the earlier ones.
const (
	minSlots = 64
	maxSlots = 1 << 16
)

// NGramBytes is the maximum memory of the n-gram tables, in bytes per token of a text. An entry
// takes 4 bytes. A table can have twice the minimum number of entries, because the number is a
// power of two. Tables of short texts take less than 1 KiB more.
const NGramBytes = 4 * tables * 2 * slotsPerToken

const (
	tables        = longestNGram - shortestNGram + 1
	slotsPerToken = 2 // minimum number of entries of a table per token, until it has maxSlots
)

func newNGrams() *ngrams { return &ngrams{slots: minSlots, table: make([]int32, tables*minSlots)} }

// grow makes the tables large enough for a text of n tokens. Larger tables start empty.
func (g *ngrams) grow(n int) {
	slots := g.slots
	for slots < min(slotsPerToken*n, maxSlots) {
		slots *= 2
	}
	if slots > g.slots {
		*g = ngrams{slots: slots, table: make([]int32, tables*slots)}
	}
}

// Draft appends to dst up to limit guesses of the tokens that follow a text. tokens is the text. It
// must begin with the text of the previous call.
func (g *ngrams) Draft(dst, tokens []int32, limit int) []int32 {
	g.learn(tokens)
	for n := min(longestNGram, len(tokens)); n >= shortestNGram; n-- {
		suffix := tokens[len(tokens)-n:]
		at := int(g.table[g.slot(suffix)]) // index of the token after the n-gram; 0 for none
		if at == 0 || !slices.Equal(tokens[at-n:at], suffix) {
			continue
		}
		// If the text repeats itself, the copied tokens reach the end of the text. The drafts then
		// continue the repetition.
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

// learn adds the n-grams that end directly before each token that is new since the last call.
func (g *ngrams) learn(tokens []int32) {
	g.grow(len(tokens))
	for at := max(g.seen, shortestNGram); at < len(tokens); at++ {
		for n := shortestNGram; n <= min(longestNGram, at); n++ {
			g.table[g.slot(tokens[at-n:at])] = int32(at)
		}
	}
	g.seen = max(g.seen, len(tokens))
}

// slot returns the index of an n-gram in the tables. Different n-grams can share an index, so Draft
// compares the tokens.
func (g *ngrams) slot(gram []int32) int {
	h := uint64(14695981039346656037) // FNV-1a over whole tokens
	for _, t := range gram {
		h = (h ^ uint64(uint32(t))) * 1099511628211
	}
	h = (h ^ h>>32) * 0x9E3779B97F4A7C15 // FNV's low bits depend only on the low bits of the tokens
	return (len(gram)-shortestNGram)*g.slots + int(h>>32)&(g.slots-1)
}
