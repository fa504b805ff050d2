// Package tokenizer converts text to a model's token ids and back, with the vocabulary of its GGUF
// file. It supports byte-level byte-pair encoding ("gpt2"), SentencePiece's byte-pair encoding
// ("llama"), and byte-pair encoding of characters by merges ("gemma4").
package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Tokenizer encodes and decodes text with a model's vocabulary. It is safe for use by many
// goroutines.
type Tokenizer struct {
	vocab       *vocabulary
	encoder     encoder
	special     *specialTokens // tokens that are matched if EncodeOptions.Special is set
	control     *specialTokens // tokens that are matched only then
	userDefined *specialTokens // tokens that are always matched
	pieces      []byte         // the bytes of all tokens, one after another
	pieceEnds   []int32        // [id] end of the token's bytes in pieces
	dropSpace   bool           // the encoder adds a space before a text, which decoding must remove
	strip       []strip        // [id] white space that belongs to special tokens; nil if there is none
	nfc         bool           // texts are encoded in Unicode's normalization form C

	maxTokenBytes int        // 0 if a text of any length can become one id or none
	lost          *[256]bool // the bytes that the encoder drops, since they have no token; nil for none
}

// maxComposed is the maximum of a text's length divided by the length of its normalization form C.
// A syllable of Korean has 3 bytes, and its three letters have 9.
const maxComposed = 3

// encoder is one of the kinds of byte-pair encoding.
type encoder interface {
	// encode appends the ids of a part of a text to dst. The part has no special tokens.
	// afterSpecial reports whether the part is at the start of the whole text or follows a special
	// token. If p.stop returns true, encode returns early, with only some of the ids.
	encode(dst []int32, text string, afterSpecial bool, p *pacer) []int32
	piece(text string) []byte
	// loses reports what encoding drops, because the vocabulary has no token for it: characters of
	// any number, or single bytes that occur in UTF-8. bytes is nil if it drops no bytes.
	loses() (all bool, bytes *[256]bool)
}

// EncodeOptions selects what Encode does in addition to encoding plain text.
type EncodeOptions struct {
	// Special encodes the texts of control tokens, such as "<|user|>", as these tokens. It is for
	// rendered templates and for prompts of completions. The texts of user-defined tokens are
	// always encoded as these tokens.
	Special bool
	// Literal are parts of the text in which Special does not apply, nor to tokens that begin or
	// end there: pairs of offsets in bytes, in ascending order.
	Literal [][2]int
	// BOS adds the tokens that the file requires around a text: the BOS token at the beginning if
	// AddsBOS returns true, and the EOS token at the end if the file sets add_eos_token. If the
	// text already begins with the BOS token, no second one is added.
	BOS bool
	// Continues means that the text follows another text, so no space is added before it
	// (SentencePiece).
	Continues bool
}

// New makes the tokenizer that the metadata describe. It returns an error if the metadata are
// incomplete or inconsistent, or if Ingot does not support the tokenizer or its split rule
// (tokenizer.ggml.pre). Without this key, the rule is "default". New does not replace an unknown
// rule by another one, because a wrong rule gives wrong ids that are hard to notice.
func New(meta *gguf.Metadata) (*Tokenizer, error) {
	t, err := load(meta)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	return t, nil
}

func load(meta *gguf.Metadata) (*Tokenizer, error) {
	model, err := meta.String(prefix + "model")
	if err != nil {
		return nil, err
	}
	t := new(Tokenizer)
	switch model {
	case "gpt2":
		rule, err := findRule(meta)
		if err != nil {
			return nil, err
		}
		if t.vocab, err = loadVocabulary(meta, rule.addBOS); err != nil {
			return nil, err
		}
		if t.encoder, err = newBPE(meta, t.vocab, rule); err != nil {
			return nil, err
		}
		t.nfc = rule.nfc
	case "llama":
		if t.vocab, err = loadVocabulary(meta, true); err != nil {
			return nil, err
		}
		e, err := newSPM(meta, t.vocab)
		if err != nil {
			return nil, err
		}
		t.encoder, t.dropSpace = e, e.addSpacePrefix
	case "gemma4":
		if t.vocab, err = loadVocabulary(meta, true); err != nil {
			return nil, err
		}
		if t.encoder, err = newCharBPE(meta, t.vocab); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("metadata %smodel: %.100q is not supported (supported: gemma4, gpt2, llama)", prefix, model)
	}
	if err := t.vocab.checkSpecial(); err != nil {
		return nil, err
	}
	t.special = newSpecialTokens(t.vocab, kindControl, kindUnknown, kindUserDefined)
	t.control = newSpecialTokens(t.vocab, kindControl, kindUnknown)
	t.userDefined = newSpecialTokens(t.vocab, kindUserDefined)
	if err := t.makePieces(); err != nil {
		return nil, err
	}
	if t.strip, err = loadStrips(meta, t.vocab, model == "llama"); err != nil {
		return nil, err
	}
	all, lost := t.encoder.loses()
	if t.lost = lost; !all && (lost == nil || !t.nfc) { // the normalization form can have more of these bytes
		t.maxTokenBytes = utf8.UTFMax // maximum length of a character that becomes the unknown token
		for _, text := range t.vocab.tokens {
			t.maxTokenBytes = max(t.maxTokenBytes, len(text)) // at least the number of bytes that the token represents, in both kinds of vocabularies
		}
		if t.nfc {
			t.maxTokenBytes *= maxComposed
		}
	}
	return t, nil
}

func findRule(meta *gguf.Metadata) (splitRule, error) {
	name, err := meta.String(prefix + "pre")
	if errors.Is(err, gguf.ErrMissing) || err == nil && name == "" {
		name = "default"
	} else if err != nil {
		return splitRule{}, err
	}
	rule, ok := splitRules[name]
	if !ok {
		return splitRule{}, fmt.Errorf("metadata %spre: split rule %.100q is not supported (supported: %s)", prefix, name, splitRuleNames())
	}
	return rule, nil
}

func (t *Tokenizer) makePieces() error {
	t.pieceEnds = make([]int32, len(t.vocab.tokens))
	for id, text := range t.vocab.tokens {
		switch t.vocab.kinds[id] {
		case kindNormal:
			t.pieces = append(t.pieces, t.encoder.piece(text)...)
		case kindUserDefined:
			t.pieces = append(t.pieces, text...)
		case kindByte:
			hex, ok := strings.CutPrefix(strings.TrimSuffix(text, ">"), "<0x")
			b, err := strconv.ParseUint(hex, 16, 8)
			if !ok || err != nil {
				return fmt.Errorf("metadata %stokens: byte token %d, %.100q, is not of the form <0x00>", prefix, id, text)
			}
			t.pieces = append(t.pieces, byte(b))
		}
		t.pieceEnds[id] = int32(len(t.pieces))
	}
	return nil
}

// Encode returns the ids of a text. Bytes that are not valid UTF-8 are encoded as they are.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []int32 {
	return t.encode(text, o, &pacer{ctx: context.Background()})
}

// EncodeContext is like Encode, but stops and returns ctx's error soon after ctx is done. It is for
// large texts.
func (t *Tokenizer) EncodeContext(ctx context.Context, text string, o EncodeOptions) ([]int32, error) {
	p := &pacer{ctx: ctx}
	ids := t.encode(text, o, p)
	return ids, p.err
}

// MaxTokenBytes returns the maximum number of bytes of a text that one id represents, without white
// space that belongs to a special token. It returns 0 if the tokenizer drops some characters: a
// text of any length can then become a single id.
func (t *Tokenizer) MaxTokenBytes() int {
	if t.lost != nil {
		return 0
	}
	return t.maxTokenBytes
}

// MinTokens returns a number of ids that a text has at least, without encoding it.
func (t *Tokenizer) MinTokens(text string) int {
	if t.maxTokenBytes == 0 {
		return 0
	}
	n := len(text)
	if t.lost != nil {
		for i := range len(text) {
			if t.lost[text[i]] {
				n--
			}
		}
	}
	if t.strip != nil {
		for _, r := range text {
			if unicode.IsSpace(r) { // a vocabulary that lacks a byte of these may count it twice
				n -= utf8.RuneLen(r)
			}
		}
	}
	return (max(n, 0) + t.maxTokenBytes - 1) / t.maxTokenBytes
}

func (t *Tokenizer) encode(text string, o EncodeOptions, p *pacer) []int32 {
	special := t.userDefined
	if o.Special {
		special = t.special
	}
	ids := make([]int32, 0, len(text)/3+4)
	addBOS := o.BOS && t.vocab.addBOS
	if addBOS {
		ids = append(ids, t.vocab.bos)
	}
	afterSpecial := !o.Continues
	whole := len(text)
	for text != "" && p.err == nil {
		at, length, id := t.findOutside(special, text, whole-len(text), o.Literal, p)
		part := text[:at]
		if t.strips(id, stripLeft) {
			part = trimRight(part)
		}
		if part != "" {
			ids = t.encoder.encode(ids, t.normalize(part), afterSpecial, p)
			afterSpecial = false
		}
		if length > 0 {
			ids = append(ids, id)
			afterSpecial = true
		}
		text = text[at+length:]
		if t.strips(id, stripRight) {
			text = trimLeft(text)
		}
	}
	if addBOS && len(ids) > 1 && ids[1] == t.vocab.bos {
		ids = ids[1:]
	}
	if o.BOS && t.vocab.addEOS {
		ids = append(ids, t.vocab.eos)
	}
	return ids
}

// normalize returns a part of a text without special tokens in the form in which the model's
// vocabulary has it.
func (t *Tokenizer) normalize(part string) string {
	if t.nfc && !norm.NFC.IsNormalString(part) {
		return norm.NFC.String(part)
	}
	return part
}

// Decode converts ids to text. ids must begin at the start of a text, because Decode drops the
// leading space that encoding adds there (SentencePiece). For the continuation of a prompt, use
// NewDecoder.
func (t *Tokenizer) Decode(ids []int32) string {
	d := t.NewDecoder()
	var out strings.Builder
	for _, id := range ids {
		out.WriteString(d.Next(id))
	}
	out.WriteString(d.Flush())
	return out.String()
}

// DecodeSpecial is like Decode, but control and unknown tokens become their texts, such as
// "<|user|>".
func (t *Tokenizer) DecodeSpecial(ids []int32) string {
	d := t.NewDecoder()
	var out strings.Builder
	for _, id := range ids {
		if kind := t.kind(id); kind != kindControl && kind != kindUnknown {
			out.WriteString(d.Next(id))
			continue
		}
		out.WriteString(d.Flush()) // the text before ends here, even within a character
		out.WriteString(t.vocab.tokens[id])
		d.started = true
	}
	out.WriteString(d.Flush())
	return out.String()
}

func (t *Tokenizer) kind(id int32) kind {
	if !t.has(id) {
		return kindUndefined
	}
	return t.vocab.kinds[id]
}

// AddsBOS reports whether the file requires a BOS token before a text.
func (t *Tokenizer) AddsBOS() bool { return t.vocab.addBOS }

// BOS returns the beginning-of-sequence token if the file names one.
func (t *Tokenizer) BOS() (int32, bool) { return t.vocab.bos, t.vocab.bos != none }

// EOS returns the end-of-sequence token if the file names one.
func (t *Tokenizer) EOS() (int32, bool) { return t.vocab.eos, t.vocab.eos != none }

// StopIDs returns the ids of the tokens that end an answer, in ascending order: the file's eos, eot
// and eom tokens, and control tokens with texts known to end an answer, such as "<|im_end|>",
// because files often do not name them all.
func (t *Tokenizer) StopIDs() []int32 { return slices.Clone(t.vocab.stop) }

// Size returns the number of tokens; ids are 0 to Size-1.
func (t *Tokenizer) Size() int { return len(t.vocab.tokens) }

// Token returns a token's text as the file stores it; "" for an id that is not a token.
func (t *Tokenizer) Token(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.vocab.tokens[id]
}

// Bytes returns the bytes that a token adds to a text, which can be a part of a character. It
// returns nil for control, unknown and unused tokens and for an id that is not a token. The slice
// belongs to the tokenizer: do not change it.
func (t *Tokenizer) Bytes(id int32) []byte {
	if !t.has(id) {
		return nil
	}
	start, end := int32(0), t.pieceEnds[id]
	if id > 0 {
		start = t.pieceEnds[id-1]
	}
	if start == end {
		return nil
	}
	return t.pieces[start:end:end]
}

// Lookup returns the id of the token with the given text, as the file stores the text.
func (t *Tokenizer) Lookup(text string) (int32, bool) {
	id, ok := t.vocab.ids[text]
	return id, ok
}

func (t *Tokenizer) has(id int32) bool { return id >= 0 && int(id) < len(t.vocab.tokens) }

// dropsSpace reports whether a decoder must drop the leading space of a text's first token, because
// the encoder added it.
func (t *Tokenizer) dropsSpace(id int32) bool { return t.dropSpace && t.vocab.kinds[id] == kindNormal }
