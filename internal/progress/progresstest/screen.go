// Package progresstest has the screen of a terminal, for tests of what programs draw on it.
package progresstest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Screen is the screen of a terminal. It knows the control sequences that moving up, returning and
// erasing need, and fails on all others. It is safe for concurrent use.
type Screen struct {
	mu     sync.Mutex
	width  int
	reflow bool // a narrower screen wraps lines; otherwise it cuts them off
	lines  [][]rune
	row    int // index of the cursor's line
	column int // the cursor's position in the line, which may be longer than the screen is wide
	rest   []byte
}

// NewScreen returns an empty screen. If reflow is set, lines are wrapped again when the width
// changes, as most terminals do; otherwise a narrower screen cuts them off, as xterm does.
func NewScreen(width int, reflow bool) *Screen {
	return &Screen{width: width, reflow: reflow, lines: [][]rune{nil}}
}

// Resize changes the width.
func (s *Screen) Resize(width int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.width = width
	if s.reflow {
		return
	}
	for i, line := range s.lines {
		s.lines[i] = line[:min(len(line), width)]
	}
	s.column = min(s.column, width)
}

// Width returns the number of columns.
func (s *Screen) Width() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.width
}

// Rows returns the rows of the screen from its top, without empty ones at the end. A line that is
// wider than the screen has several rows.
func (s *Screen) Rows() (rows []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		text := []rune(strings.TrimRight(string(line), " "))
		for len(text) > s.width {
			rows = append(rows, string(text[:s.width]))
			text = text[s.width:]
		}
		rows = append(rows, string(text))
	}
	for len(rows) > 0 && rows[len(rows)-1] == "" {
		rows = rows[:len(rows)-1]
	}
	return rows
}

// Write implements io.Writer for the output of a program.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for len(s.rest) > 0 {
		n, err := s.next(s.rest)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break // a control sequence or a character that is not complete yet
		}
		s.rest = s.rest[n:]
	}
	return len(p), nil
}

// next handles the character or control sequence at the start of a text, and returns its length.
func (s *Screen) next(text []byte) (int, error) {
	switch text[0] {
	case '\r':
		s.column = s.start()
		return 1, nil
	case '\n':
		s.row++
		if s.row == len(s.lines) {
			s.lines = append(s.lines, nil)
		}
		s.column = 0
		return 1, nil
	case '\x1b':
		return s.control(text)
	}
	if !utf8.FullRune(text) {
		return 0, nil
	}
	r, n := utf8.DecodeRune(text)
	s.put(r)
	return n, nil
}

// start returns the position in the line at which the cursor's row begins. At the right edge, the
// cursor waits for the next character before it moves to the next row.
func (s *Screen) start() int {
	if s.column > 0 && s.column%s.width == 0 {
		return s.column - s.width
	}
	return s.column - s.column%s.width
}

func (s *Screen) put(r rune) {
	line := s.lines[s.row]
	for len(line) <= s.column {
		line = append(line, ' ')
	}
	line[s.column] = r
	s.lines[s.row] = line
	s.column++
}

func (s *Screen) control(text []byte) (int, error) {
	end := bytes.IndexFunc(text, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' })
	if end < 0 {
		return 0, nil
	}
	n := 0
	switch sequence := string(text[1 : end+1]); {
	case sequence == "[2K":
		s.erase(s.start(), s.start()+s.width)
	case sequence == "[J":
		s.erase(s.column, len(s.lines[s.row]))
		s.lines[s.row] = s.lines[s.row][:min(s.column, len(s.lines[s.row]))]
		s.lines = s.lines[:s.row+1]
	case strings.HasSuffix(sequence, "A"):
		if _, err := fmt.Sscanf(sequence, "[%dA", &n); err != nil {
			return 0, fmt.Errorf("read the sequence %q: %w", sequence, err)
		}
		s.up(n)
	default:
		return 0, fmt.Errorf("the screen does not know the sequence %q: %w", sequence, io.ErrUnexpectedEOF)
	}
	return end + 1, nil
}

func (s *Screen) up(rows int) {
	for range rows {
		switch {
		case s.column >= s.width:
			s.column -= s.width
		case s.row > 0:
			s.row--
			s.column += max(0, len(s.lines[s.row])-1) / s.width * s.width
		}
	}
}

func (s *Screen) erase(from, to int) {
	line := s.lines[s.row]
	for i := from; i < min(to, len(line)); i++ {
		line[i] = ' '
	}
	for len(line) > 0 && line[len(line)-1] == ' ' {
		line = line[:len(line)-1]
	}
	s.lines[s.row] = line
}
