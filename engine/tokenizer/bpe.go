package tokenizer

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/ingot-run/ingot/engine/gguf"
)

// byteRunes is GPT-2's alphabet: the character for each byte in a byte-level vocabulary. A byte
// that is a printable Latin-1 character is represented by this character. The other bytes have the
// characters from U+0100 on, in order.
var byteRunes = func() (t [256]rune) {
	next := rune(0x100)
	for b := range t {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			t[b] = rune(b)
		} else {
			t[b] = next
			next++
		}
	}
	return t
}()

// runeBytes is the inverse of byteRunes: for each character, the byte that it stands for, or -1 if
// it stands for none.
var runeBytes = func() (t [0x144]int16) {
	for i := range t {
		t[i] = -1
	}
	for b, r := range byteRunes {
		t[r] = int16(b)
	}
	return t
}()

// bpe is byte-level byte-pair encoding. A symbol is the id of a token, or a higher number for a
// string that occurs in merges but is not a token.
type bpe struct {
	vocab  *vocabulary
	rule   splitRule
	unk    int32      // token of a byte without a token; none if such bytes are dropped
	bytes  [256]int32 // symbol of each byte; noSymbol if it has none
	merges map[uint64]merge
	words  map[string]int32 // ids of the tokens by their bytes; nil unless rule.wholeWords is set
	pool   sync.Pool        // has *merger values
}

// merge is the result of joining two symbols. Its key in bpe.merges is left<<32 | right.
type merge struct{ id, rank int32 }

func newBPE(meta *gguf.Metadata, v *vocabulary, rule splitRule) (*bpe, error) {
	merges, err := meta.Strings(prefix + "merges")
	if err != nil {
		return nil, err
	}
	if len(merges) > math.MaxInt32/2 {
		return nil, fmt.Errorf("metadata %smerges: has %d merges, but at most %d are supported", prefix, len(merges), math.MaxInt32/2)
	}
	e := &bpe{vocab: v, rule: rule, unk: v.plainUnknown(), merges: make(map[uint64]merge, len(merges))}
	e.pool.New = func() any { return new(merger) }
	symbols := newSymbols(v)
	for rank, text := range merges {
		// The left part is never empty. It can itself be a space, so the search for the separator
		// starts at the second byte.
		cut := strings.IndexByte(text[min(1, len(text)):], ' ') + 1
		if cut == 0 || cut+1 == len(text) {
			return nil, fmt.Errorf("metadata %smerges: merge %d, %.100q, does not consist of two parts separated by a space", prefix, rank, text)
		}
		left, right := text[:cut], text[cut+1:]
		key := uint64(symbols.number(left))<<32 | uint64(symbols.number(right))
		if _, ok := e.merges[key]; !ok {
			e.merges[key] = merge{id: symbols.joined(left, right), rank: int32(rank)}
		}
	}
	for b, r := range &byteRunes {
		e.bytes[b] = symbols.lookup(string(r))
	}
	if rule.wholeWords {
		e.words = make(map[string]int32, len(v.tokens))
		for id, text := range v.tokens {
			if v.kinds[id] == kindNormal || v.kinds[id] == kindUserDefined {
				e.words[string(decodeByteLevel(text))] = int32(id)
			}
		}
	}
	return e, nil
}

// symbols assigns a number to each string: a token's id to its text, a number above all ids to any
// other string.
type symbols struct {
	vocab *vocabulary
	more  map[string]int32
	text  []byte
}

func newSymbols(v *vocabulary) *symbols { return &symbols{vocab: v, more: map[string]int32{}} }

func (s *symbols) lookup(text string) int32 {
	if id, ok := s.vocab.ids[text]; ok && s.vocab.kinds[id] != kindControl && s.vocab.kinds[id] != kindUnknown {
		return id
	}
	if n, ok := s.more[text]; ok {
		return n
	}
	return noSymbol
}

func (s *symbols) number(text string) int32 {
	n := s.lookup(text)
	if n == noSymbol {
		n = int32(len(s.vocab.tokens) + len(s.more))
		s.more[text] = n
	}
	return n
}

func (s *symbols) joined(left, right string) int32 {
	s.text = append(append(s.text[:0], left...), right...)
	if id, ok := s.vocab.ids[string(s.text)]; ok && s.vocab.kinds[id] == kindNormal {
		return id // the usual case; it allocates no string
	}
	return s.number(string(s.text))
}

func (e *bpe) encode(dst []int32, text string, _ bool, p *pacer) []int32 {
	m := e.pool.Get().(*merger)
	defer e.pool.Put(m)
	e.rule.passes.split(text, func(piece string) {
		if !p.stop() {
			dst = e.encodePiece(dst, piece, m, p)
		}
	})
	return dst
}

func (e *bpe) loses() (all bool, bytes *[256]bool) {
	lost, some := new([256]bool), false
	for b := range lost {
		never := b == 0xC0 || b == 0xC1 || b > 0xF4 // in UTF-8
		lost[b] = e.unk == none && !e.has(byte(b))
		some = some || lost[b] && !never
	}
	if !some {
		return false, nil
	}
	return false, lost
}

// has reports whether a byte has a token.
func (e *bpe) has(b byte) bool {
	id := e.bytes[b]
	return id >= 0 && int(id) < len(e.vocab.tokens)
}

func (e *bpe) encodePiece(dst []int32, piece string, m *merger, p *pacer) []int32 {
	if e.words != nil {
		if id, ok := e.words[piece]; ok {
			return append(dst, id)
		}
	}
	m.reset()
	for i := range len(piece) {
		if e.bytes[piece[i]] != noSymbol || e.unk != none {
			m.add(e.bytes[piece[i]], i+1)
		}
	}
	if len(m.symbols) == 0 {
		return dst
	}
	m.run(e.join, p)
	for i := int32(0); i != none; i = m.symbols[i].next {
		s := m.symbols[i]
		if s.id >= 0 && int(s.id) < len(e.vocab.tokens) {
			dst = append(dst, s.id)
			continue
		}
		for _, b := range []byte(piece[s.start:s.end]) {
			dst = e.appendByte(dst, b)
		}
	}
	return dst
}

// appendByte appends the token of one byte. It is called for the bytes of a symbol that is not a
// token. A byte without a token becomes the unknown token. If there is none, the byte is dropped,
// as by the models' own tokenizers.
func (e *bpe) appendByte(dst []int32, b byte) []int32 {
	switch {
	case e.has(b):
		return append(dst, e.bytes[b])
	case e.unk != none:
		return append(dst, e.unk)
	}
	return dst
}

func (e *bpe) join(left, right textSymbol) (id, rank int32, ok bool) {
	m, ok := e.merges[uint64(uint32(left.id))<<32|uint64(uint32(right.id))]
	return m.id, m.rank, ok
}

func (e *bpe) piece(text string) []byte { return decodeByteLevel(text) }

// decodeByteLevel maps characters of GPT-2's alphabet back to bytes. If the text has any other
// character, it is returned unchanged: added tokens can have such texts.
func decodeByteLevel(text string) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r >= rune(len(runeBytes)) || runeBytes[r] < 0 {
			return []byte(text)
		}
		out = append(out, byte(runeBytes[r]))
	}
	return out
}
