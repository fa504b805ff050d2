package rows

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// DefaultID returns the custom_id that a row gets if it has none, unless an earlier row of the file has that name.
func DefaultID(line int) string { return defaultPrefix + strconv.Itoa(line) }

const defaultPrefix = "line-"

// names has the custom_ids of a file's rows so far. It needs about 20 bytes for each row that has a name, and one bit for
// each row without a name.
type names struct {
	given   map[uint64]struct{} // 64-bit hashes
	unnamed []uint64            // a bit for each line; set if the row's name is DefaultID
}

func newNames() *names { return &names{given: map[uint64]struct{}{}} }

// take adds the name that a row has. It reports whether no earlier row has that name.
func (n *names) take(id string) bool {
	if n.has(id) {
		return false
	}
	n.given[hash(id)] = struct{}{}
	return true
}

// makeUp makes a name for a row that has none, and adds the name. No earlier row has that name.
func (n *names) makeUp(line int) string {
	if n.has(DefaultID(line)) {
		for i := 2; ; i++ {
			if id := fmt.Sprintf("%s.%d", DefaultID(line), i); n.take(id) {
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

func (n *names) has(id string) bool {
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
