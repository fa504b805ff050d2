package rows

import (
	"encoding/binary"
	"encoding/hex"
)

const blockLines = 64

// lineSet is a set of line numbers in blocks of blockLines. Some lines have a checksum. The memory
// depends on the number of lines in the set, not on how large the numbers are, since a file can
// contain any line number.
type lineSet map[int]*lineBlock

type lineBlock struct {
	has    uint64 // a bit for each line
	summed uint64 // a bit for each line that has a checksum in sums
	sums   *[blockLines]uint32
}

func (s lineSet) add(line int) (before bool) {
	b := s[line/blockLines]
	if b == nil {
		b = new(lineBlock)
		s[line/blockLines] = b
	}
	bit := uint64(1) << (line % blockLines)
	before = b.has&bit != 0
	b.has |= bit
	return before
}

// remove removes a line, which must be in the set. It reports whether the line had a checksum.
func (s lineSet) remove(line int) (summed bool) {
	b, bit := s[line/blockLines], uint64(1)<<(line%blockLines)
	summed = b.summed&bit != 0
	b.has &^= bit
	b.summed &^= bit
	return summed
}

func (s lineSet) has(line int) bool {
	b := s.block(line)
	return b != nil && b.has&(1<<(line%blockLines)) != 0
}

// block returns the block that contains a line, or nil if the set has no line of that block.
func (s lineSet) block(line int) *lineBlock {
	if line < 0 {
		return nil
	}
	return s[line/blockLines]
}

// setSum sets the checksum of a line, which must be in the set.
func (s lineSet) setSum(line int, sum uint32) {
	b := s[line/blockLines]
	if b.sums == nil {
		b.sums = new([blockLines]uint32)
	}
	b.summed |= 1 << (line % blockLines)
	b.sums[line%blockLines] = sum
}

// compare reports whether a line has a checksum (present), and whether this checksum equals sum
// (same). sum has 8 hex digits.
func (s lineSet) compare(line int, sum string) (present, same bool) {
	b := s.block(line)
	if b == nil || b.summed&(1<<(line%blockLines)) == 0 {
		return false, false
	}
	raw, err := hex.DecodeString(sum)
	return true, err == nil && len(raw) == 4 && binary.BigEndian.Uint32(raw) == b.sums[line%blockLines]
}
