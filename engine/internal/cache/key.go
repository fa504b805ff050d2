package cache

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key identifies the content of a full page. It is a SHA-256 hash of all tokens of the text up to
// and including the first token after the page. A weaker hash is not enough: two texts with the
// same Key would share pages.
type Key [sha256.Size]byte

// next returns the key of the page after page k. tokens has that page's tokens and one more. For
// the first page, k is zero.
func (k Key) next(tokens []int32) Key {
	var buf [sha256.Size + 4*largePage + 4]byte
	b := append(buf[:0], k[:]...)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return sha256.Sum256(b)
}

// largePage is the maximum number of positions of a page for which the method next allocates no
// memory.
const largePage = 256

// Prefix has the keys of the full pages at the beginning of a text, in order. A page that ends with
// the text's last token has no key, because a key depends on the token after the page.
type Prefix []Key

// Prefix returns the keys of a text's full pages, which HasPrefix and Held look up. It hashes the
// whole text, so callers store the result.
func (p *Pool) Prefix(tokens []int32) Prefix {
	keys := make(Prefix, 0, max(0, len(tokens)-1)/p.pageSize)
	var last Key
	for end := p.pageSize; end < len(tokens); end += p.pageSize {
		last = last.next(tokens[end-p.pageSize : end+1])
		keys = append(keys, last)
	}
	return keys
}

// HasPrefix reports whether the cache holds the first page of a text, or a sequence is computing
// this page.
func (p *Pool) HasPrefix(text Prefix) bool {
	if len(text) == 0 {
		return false
	}
	_, known := p.known[0][text[0]]
	_, claimed := p.claims[text[0]]
	return known || claimed
}

// Held returns how many pages at the beginning of a text are already in tables of sequences, in all
// groups together. A new table can share these pages, so it takes no free pages for them.
func (p *Pool) Held(text Prefix) int {
	n := 0
	for n < len(text) && p.inTables(0, text[n]) {
		n++
	}
	if p.groups.Sliding == 0 {
		return n
	}
	held := p.groups.Full * n
	for _, key := range text[p.groups.first(n*p.pageSize)/p.pageSize : n] {
		if !p.knows(key, true) {
			return 0 // a page of the window is missing, so a new table cannot share the others
		}
		if p.inTables(p.groups.Full, key) {
			held += p.groups.Sliding
		}
	}
	return held
}

func (p *Pool) inTables(group int, key Key) bool {
	id, ok := p.known[group][key]
	return ok && p.pages[id].tables > 0
}
