package cache

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key is the content of a full page: a SHA-256 hash over every token up to and including the one after it. A weaker hash is
// not enough: two texts with the same key would use each other's keys and values.
type Key [sha256.Size]byte

// next is the key of the page after one with key k. tokens are the tokens of that page and the one after it.
func (k Key) next(tokens []int32) Key {
	var buf [sha256.Size + 4*largePage + 4]byte
	b := append(buf[:0], k[:]...)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return sha256.Sum256(b)
}

// largePage is the maximum number of positions of a page whose key is made without an allocation.
const largePage = 256
