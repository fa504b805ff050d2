package tokenizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/gguf"
)

const spaceMark = "▁" // U+2581, which represents a space in SentencePiece vocabularies

// spm is SentencePiece's byte-pair encoding. It joins characters and tokens to longer tokens, the
// one with the best score first. Characters that are not tokens become byte tokens or, in a
// vocabulary without byte tokens, the unknown token.
type spm struct {
	vocab          *vocabulary
	ranks          []int32          // [id] 0 for the best score; equal scores have equal ranks
	joinable       map[string]int32 // ids of the tokens that can result from joining characters
	bytes          [256]int32       // ids of the tokens <0x00> to <0xFF>
	hasBytes       bool             // the vocabulary has all 256 byte tokens
	unk            int32            // token of characters without a token, if there are no byte tokens; none if they are dropped
	addSpacePrefix bool
	// splitAtSpaces reports whether each word can be encoded separately: no token contains a space
	// mark after another character.
	splitAtSpaces bool
	pool          sync.Pool // has *merger values
}

func newSPM(meta *gguf.Metadata, v *vocabulary) (*spm, error) {
	scores, err := meta.Floats(prefix + "scores")
	if err != nil {
		return nil, err
	}
	if len(scores) != len(v.tokens) {
		return nil, fmt.Errorf("metadata %sscores: has %d scores for %d tokens", prefix, len(scores), len(v.tokens))
	}
	e := &spm{vocab: v, joinable: make(map[string]int32, len(v.tokens)), splitAtSpaces: true, hasBytes: true, unk: v.plainUnknown()}
	e.pool.New = func() any { return new(merger) }
	if e.ranks, err = rankScores(scores); err != nil {
		return nil, err
	}
	if e.addSpacePrefix, err = flag(meta, "add_space_prefix", true); err != nil {
		return nil, err
	}
	for id, text := range v.tokens {
		switch v.kinds[id] {
		case kindControl, kindUnknown, kindByte:
			continue
		}
		e.joinable[text] = int32(id)
		if spansWords(text) {
			e.splitAtSpaces = false
		}
	}
	for b := range e.bytes {
		id, ok := v.ids[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			id, e.hasBytes = none, false
		}
		e.bytes[b] = id
	}
	return e, nil
}

// rankScores returns the rank of each score; 0 is the rank of the best.
func rankScores(scores []float32) ([]int32, error) {
	order := make([]int32, len(scores))
	for i, s := range scores {
		if math.IsNaN(float64(s)) {
			return nil, fmt.Errorf("metadata %sscores: score %d is NaN, but must be a number", prefix, i)
		}
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	ranks := make([]int32, len(scores))
	for i := 1; i < len(order); i++ {
		ranks[order[i]] = ranks[order[i-1]]
		if scores[order[i]] != scores[order[i-1]] {
			ranks[order[i]]++
		}
	}
	return ranks, nil
}

// spansWords reports whether a token's text has a space mark after another character, so that the
// token extends over two words.
func spansWords(text string) bool {
	return strings.Contains(strings.TrimLeft(text, spaceMark), spaceMark)
}

func (e *spm) loses() (all bool, bytes *[256]bool) { return !e.hasBytes, nil }

func (e *spm) encode(dst []int32, text string, afterSpecial bool, p *pacer) []int32 {
	var b strings.Builder
	b.Grow(len(text) + 2*strings.Count(text, " ") + len(spaceMark))
	if e.addSpacePrefix && afterSpecial {
		b.WriteString(spaceMark)
	}
	for {
		before, after, found := strings.Cut(text, " ")
		b.WriteString(before)
		if !found {
			break
		}
		b.WriteString(spaceMark)
		text = after
	}
	m := e.pool.Get().(*merger)
	defer e.pool.Put(m)
	from := len(dst)
	for marked := b.String(); marked != "" && !p.stop(); {
		n := len(marked)
		if e.splitAtSpaces {
			n = wordEnd(marked)
		}
		dst = e.encodeWord(dst, from, marked[:n], m, p)
		marked = marked[n:]
	}
	return dst
}

// wordEnd returns the end of the first word of a text: the position of the first space mark that
// follows another character.
func wordEnd(text string) int {
	i := 0
	for strings.HasPrefix(text[i:], spaceMark) {
		i += len(spaceMark)
	}
	if n := strings.Index(text[i:], spaceMark); n >= 0 {
		return i + n
	}
	return len(text)
}

// encodeWord appends the ids of a word. from is the index in dst where the ids of the text begin.
// As in SentencePiece, a sequence of characters without tokens becomes one unknown token.
func (e *spm) encodeWord(dst []int32, from int, word string, m *merger, p *pacer) []int32 {
	m.reset()
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		id, ok := e.joinable[word[i:i+n]]
		if !ok {
			id = noSymbol
		}
		i += n
		m.add(id, i)
	}
	m.run(func(left, right textSymbol) (id, rank int32, ok bool) {
		if id, ok = e.joinable[word[left.start:right.end]]; ok {
			rank = e.ranks[id]
		}
		return id, rank, ok
	}, p)
	for i := int32(0); i != none; i = m.symbols[i].next {
		s := m.symbols[i]
		switch {
		case s.id != noSymbol:
			dst = append(dst, s.id)
		case e.hasBytes:
			for _, b := range []byte(word[s.start:s.end]) {
				dst = append(dst, e.bytes[b])
			}
		case e.unk != none && (len(dst) == from || dst[len(dst)-1] != e.unk):
			dst = append(dst, e.unk)
		}
	}
	return dst
}

func (e *spm) piece(text string) []byte { return []byte(strings.ReplaceAll(text, spaceMark, " ")) }
