package cache

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key identifies the content of a full page. It is a SHA-256 hash of all tokens of the text up to and including the first token
// after the page. A weaker hash is not enough: two texts with the same key would use each other's keys and values.
type Key [sha256.Size]byte

// next returns the key of the page that follows a page with key k. tokens are the tokens of that next page
// and the first token after it.
func (k Key) next(tokens []int32) Key {
	var buf [sha256.Size + 4*largePage + 4]byte
	b := append(buf[:0], k[:]...)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return sha256.Sum256(b)
}

// largePage is the maximum number of positions of a page for which next allocates no memory.
const largePage = 256
