package table

import (
	"bufio"
	"errors"
	"io"
)

// lineEnds reads CSV and keeps line ends in quoted cells as they are. encoding/csv drops the \r of each \r\n, so lineEnds
// returns these in quoted cells as \r\r\n.
type lineEnds struct {
	in        *bufio.Reader
	separator byte
	state     cellState
	pending   byte // to be returned next, if not 0
}

type cellState byte

const (
	cellStart cellState = iota
	plainCell           // up to the next separator or line end; quotes in it are errors, after which encoding/csv goes on with the next line
	quotedCell
	afterQuote // which ends a quoted cell, or is the first of two that stand for one
)

// Read implements io.Reader.
func (l *lineEnds) Read(p []byte) (int, error) {
	n := 0
	for ; n < len(p); n++ {
		if l.pending != 0 {
			p[n], l.pending = l.pending, 0
			continue
		}
		if n > 0 && l.in.Buffered() == 0 { // the rest of a pipe may come later
			return n, nil
		}
		c, err := l.in.ReadByte()
		if err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
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
	case c == l.separator || c == '\n':
		l.state = cellStart
	default:
		l.state = plainCell
	}
}
