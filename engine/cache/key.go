package cache

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key is the content of a full page: a hash over every token up to and including the one after it. SHA-256, since two
// texts with one key would silently answer each other's prompts.
type Key [sha256.Size]byte

// next is the key of the page that follows one with key k. tokens are the page's own and the one after it.
func (k Key) next(tokens []int32) Key {
	var buf [sha256.Size + 4*largePage + 4]byte
	b := append(buf[:0], k[:]...)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return sha256.Sum256(b)
}

// largePage is the positions of a page up to which its key is made without an allocation.
const largePage = 256
