package rows

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// DefaultID returns the custom_id that a row without one gets. If an earlier row has this
// custom_id, the row gets another one.
func DefaultID(line int) string { return defaultPrefix + strconv.Itoa(line) }

const defaultPrefix = "line-"

// Names has the custom_ids of the rows read so far: about 20 bytes for each row with a custom_id,
// one bit for each without.
type Names struct {
	given   map[uint64]struct{} // 64-bit hashes of the custom_ids that rows have in the file
	unnamed []uint64            // one bit for each line, set if the row's custom_id is DefaultID
}

// NewNames returns a Names without rows.
func NewNames() *Names { return &Names{given: map[uint64]struct{}{}} }

// Take adds the custom_id of a row. It returns false if an earlier row has the same custom_id.
func (n *Names) Take(id string) bool {
	if n.has(id) {
		return false
	}
	n.given[hash(id)] = struct{}{}
	return true
}

// MakeUp returns a custom_id for a row without one, and adds it. No earlier row has the same
// custom_id.
func (n *Names) MakeUp(line int) string {
	if n.has(DefaultID(line)) {
		for i := 2; ; i++ {
			if id := fmt.Sprintf("%s.%d", DefaultID(line), i); n.Take(id) {
				return id
			}
		}
	}
	for len(n.unnamed) <= line/64 {
		n.unnamed = append(n.unnamed, 0)
	}
	n.unnamed[line/64] |= 1 << (line % 64)
	return DefaultID(line)
}

func (n *Names) has(id string) bool {
	if _, ok := n.given[hash(id)]; ok {
		return true
	}
	number, ok := strings.CutPrefix(id, defaultPrefix)
	line, err := strconv.Atoi(number)
	return ok && err == nil && id == DefaultID(line) && line > 0 && line/64 < len(n.unnamed) && n.unnamed[line/64]&(1<<(line%64)) != 0
}

func hash(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.LittleEndian.Uint64(sum[:])
}
