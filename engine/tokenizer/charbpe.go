package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/gguf"
)

// charBPE is byte-pair encoding that joins characters in the order of the file's merges, as in
// Gemma 4. Spaces are space marks. Characters that are not tokens become byte tokens or, in a
// vocabulary without byte tokens, the unknown token.
type charBPE struct {
	*bpe
	byteTokens [256]int32 // ids of the tokens <0x00> to <0xFF>
	hasBytes   bool       // the vocabulary has all 256 byte tokens
}

func newCharBPE(meta *gguf.Metadata, v *vocabulary) (*charBPE, error) {
	merges, err := newBPE(meta, v, splitRule{passes: passes{runOf(isNewline, unlimited)}})
	if err != nil {
		return nil, err
	}
	e := &charBPE{bpe: merges, hasBytes: true}
	for b := range e.byteTokens {
		id, ok := v.ids[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			id, e.hasBytes = none, false
		}
		e.byteTokens[b] = id
	}
	return e, nil
}

func isNewline(r rune) bool { return r == '\n' }

func (e *charBPE) loses() (all bool, bytes *[256]bool) { return !e.hasBytes, nil }

func (e *charBPE) piece(text string) []byte { return []byte(strings.ReplaceAll(text, spaceMark, " ")) }

// encode splits a text into runs of newlines and the text between them. A run that is a token
// becomes this token.
func (e *charBPE) encode(dst []int32, text string, _ bool, p *pacer) []int32 {
	m := e.pool.Get().(*merger)
	defer e.pool.Put(m)
	from := len(dst)
	e.rule.passes.split(strings.ReplaceAll(text, " ", spaceMark), func(piece string) {
		if p.stop() {
			return
		}
		if id := e.character(piece); piece[0] == '\n' && id != noSymbol {
			dst = append(dst, id)
			return
		}
		dst = e.encodeChars(dst, from, piece, m, p)
	})
	return dst
}

// character returns the id of the token with the given text; noSymbol if there is none that plain
// text can become.
func (e *charBPE) character(text string) int32 {
	id, ok := e.vocab.ids[text]
	if !ok {
		return noSymbol
	}
	switch e.vocab.kinds[id] {
	case kindControl, kindUnknown, kindByte:
		return noSymbol
	}
	return id
}

// encodeChars appends the ids of a piece. from is the index in dst where the ids of the text begin.
// A sequence of characters without tokens becomes one unknown token if there are no byte tokens.
func (e *charBPE) encodeChars(dst []int32, from int, piece string, m *merger, p *pacer) []int32 {
	m.reset()
	for i := 0; i < len(piece); {
		_, n := utf8.DecodeRuneInString(piece[i:])
		m.add(e.character(piece[i:i+n]), i+n)
		i += n
	}
	m.run(e.join, p)
	for i := int32(0); i != none; i = m.symbols[i].next {
		s := m.symbols[i]
		switch {
		case s.id >= 0 && int(s.id) < len(e.vocab.tokens):
			dst = append(dst, s.id)
		case e.hasBytes:
			for _, b := range []byte(piece[s.start:s.end]) {
				dst = append(dst, e.byteTokens[b])
			}
		case e.unk != none && (len(dst) == from || dst[len(dst)-1] != e.unk):
			dst = append(dst, e.unk)
		}
	}
	return dst
}
