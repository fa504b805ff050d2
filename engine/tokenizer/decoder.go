package tokenizer

import "unicode/utf8"

// Decoder converts ids to text one by one. It is not safe for concurrent use.
type Decoder struct {
	t       *Tokenizer
	started bool   // a token that is not empty has been decoded
	pending []byte // beginning of an incomplete character, at most 3 bytes
	out     []byte // buffer of Next
}

// NewDecoder returns a decoder for ids that begin at the start of a text. If encoding adds a space
// there (SentencePiece), the decoder drops it. To decode the continuation of a prompt, first pass
// the prompt's last id to Next and discard the result.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Next decodes the next id and returns the characters that it completes. The text can be empty,
// because a token can end within a character. Bytes that cannot become valid UTF-8 are replaced by
// U+FFFD: one for each longest sequence of bytes that begins like a character (Unicode's "maximal
// subpart").
func (d *Decoder) Next(id int32) string {
	d.out = d.Append(d.out[:0], id)
	return string(d.out)
}

// Append is like Next, but appends the text to dst.
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

// AppendName appends the text of a control token, such as "<|user|>". The text before ends there,
// even within a character.
func (d *Decoder) AppendName(dst []byte, id int32) []byte {
	dst = append(dst, d.Flush()...)
	d.started = true
	return append(dst, d.t.Token(id)...)
}

// badLength is called if b begins with bytes that are not valid UTF-8. It returns the number of
// bytes that are replaced by one U+FFFD: the longest sequence at the start of b that could begin a
// character, at least 1 (Unicode's "maximal subpart").
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

// Flush ends the text. It returns U+FFFD if the text ends with an incomplete character, otherwise
// "". The decoder is then ready for another text.
func (d *Decoder) Flush() string {
	incomplete := len(d.pending) > 0
	d.pending, d.started = d.pending[:0], false
	if incomplete {
		return string(utf8.RuneError)
	}
	return ""
}
