package tokenizer

import "unicode/utf8"

// Decoder turns ids into text one by one. It serves one goroutine.
type Decoder struct {
	t       *Tokenizer
	started bool   // a token with text has been seen
	pending []byte // the start of a character that is not yet whole: at most 3 bytes
	out     []byte // of Next
}

// NewDecoder gives a decoder for a text from its start: where encoding puts a
// space before a text (SentencePiece), the first token's leading space is
// dropped. To decode the continuation of a prompt instead, give Next the
// prompt's last id first and throw away what it returns.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Next gives the text that the id completes, often none: never part of a
// character. Bytes that can no longer become valid UTF-8 come out as U+FFFD,
// one for each stretch that begins like a character (Unicode's "maximal
// subpart").
func (d *Decoder) Next(id int32) string {
	d.out = d.Append(d.out[:0], id)
	return string(d.out)
}

// Append is Next, with the text appended to dst.
func (d *Decoder) Append(dst []byte, id int32) []byte {
	b := d.t.Bytes(id)
	if len(b) == 0 {
		return dst
	}
	if !d.started && b[0] == ' ' && d.t.dropsSpace(id) {
		b = b[1:]
	}
	d.started = true
	if len(d.pending) == 0 && utf8.Valid(b) {
		return append(dst, b...)
	}
	d.pending = append(d.pending, b...)
	rest := d.pending
	for len(rest) > 0 && utf8.FullRune(rest) {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			n = badLength(rest)
		}
		dst = utf8.AppendRune(dst, r)
		rest = rest[n:]
	}
	d.pending = append(d.pending[:0], rest...)
	return dst
}

// badLength is the length of the maximal subpart of an ill-formed sequence at
// the start of b: as long as more bytes could have made it a character.
func badLength(b []byte) int {
	n := 1
	for n < len(b) && !utf8.FullRune(b[:n]) {
		n++
	}
	if n > 1 {
		n--
	}
	return n
}

// Flush ends the text: U+FFFD for a character that stays incomplete, else "".
// The decoder is then ready for another text.
func (d *Decoder) Flush() string {
	incomplete := len(d.pending) > 0
	d.pending, d.started = d.pending[:0], false
	if incomplete {
		return string(utf8.RuneError)
	}
	return ""
}
