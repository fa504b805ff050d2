package table

import "bufio"

// lineEnds is a reader of CSV text for encoding/csv. It preserves line ends in quoted cells:
// encoding/csv drops the \r of each \r\n, so lineEnds replaces each \r\n in a quoted cell by
// \r\r\n.
type lineEnds struct {
	in        *bufio.Reader
	separator byte
	state     cellState
	pending   byte // the byte that Read returns next; 0 for none
}

type cellState byte

const (
	cellStart cellState = iota
	plainCell           // in an unquoted cell
	quotedCell
	afterQuote  // after a quote that ends a quoted cell, or that is the first of two quotes for one
	damagedLine // after a misplaced quote: encoding/csv reports an error and skips the rest of the line
)

func (l *lineEnds) Read(p []byte) (int, error) {
	n := 0
	for ; n < len(p); n++ {
		if l.pending != 0 {
			p[n], l.pending = l.pending, 0
			continue
		}
		if n > 0 && l.in.Buffered() == 0 { // a pipe may have no more bytes yet
			return n, nil
		}
		c, err := l.in.ReadByte()
		if err != nil { // n is 0, since nothing was buffered
			return 0, err
		}
		p[n] = c
		l.advance(c)
		if c == '\r' && l.state == quotedCell {
			if next, err := l.in.Peek(1); err == nil && next[0] == '\n' {
				l.pending = '\r'
			}
		}
	}
	return n, nil
}

func (l *lineEnds) advance(c byte) {
	switch {
	case l.state == quotedCell:
		if c == '"' {
			l.state = afterQuote
		}
	case c == '"' && (l.state == cellStart || l.state == afterQuote):
		l.state = quotedCell
	case c == '\n', c == l.separator && l.state != damagedLine:
		l.state = cellStart
	case c == '"' || l.state == afterQuote || l.state == damagedLine:
		l.state = damagedLine
	default:
		l.state = plainCell
	}
}
