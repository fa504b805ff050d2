package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/ingot-run/ingot/engine/gguf"
)

// strip tells which white space next to a special token belongs to the token. In Hugging Face's
// tokenizers, these are the attributes lstrip and rstrip of an added token. GGUF files do not have
// them, so they follow from the model.
type strip uint8

const (
	stripLeft strip = 1 << iota
	stripRight
)

// Tokens of Phi's vocabularies.
var (
	// phi3Bare are the special tokens of Phi-3 and Phi-3.5 without rstrip; the others have it.
	phi3Bare = []string{"<unk>", "<s>", "<|endoftext|>"}
	// phi4MiniRight are the special tokens of Phi-4-mini with rstrip.
	phi4MiniRight = []string{"<|assistant|>", "<|end|>", "<|user|>", "<|system|>", "<|tag|>"}
)

// loadStrips returns the white space that belongs to special tokens: [id], or nil if there is none.
// As in llama.cpp, Phi-3 is recognised by general.name; converters do not always write this name,
// so that the architecture counts too. Of the other Phi models, Phi-4 has the token <|im_sep|>.
func loadStrips(meta *gguf.Metadata, v *vocabulary, sentencePiece bool) ([]strip, error) {
	arch, err := textOr(meta, "general.architecture")
	if err != nil {
		return nil, err
	}
	name, err := textOr(meta, "general.name")
	if err != nil {
		return nil, err
	}
	name = strings.ToLower(name)
	named := strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	_, im := v.ids["<|im_sep|>"]
	var of func(text string) strip
	switch {
	case sentencePiece && (arch == "phi3" || named):
		of = func(text string) strip {
			if slices.Contains(phi3Bare, text) {
				return 0
			}
			return stripRight
		}
	case arch == "phi3" && im:
		of = func(string) strip { return stripLeft | stripRight }
	case arch == "phi3":
		of = func(text string) strip {
			if slices.Contains(phi4MiniRight, text) {
				return stripRight
			}
			return 0
		}
	default:
		return nil, nil
	}
	strips := make([]strip, len(v.tokens))
	for id, text := range v.tokens {
		if v.isSpecial(id) {
			strips[id] = of(text)
		}
	}
	return strips, nil
}

// textOr returns a text of the metadata, or "" if it is missing.
func textOr(meta *gguf.Metadata, key string) (string, error) {
	text, err := meta.String(key)
	if errors.Is(err, gguf.ErrMissing) {
		return "", nil
	}
	return text, err
}

// strips reports whether white space on a side of a token belongs to it.
func (t *Tokenizer) strips(id int32, side strip) bool {
	return t.strip != nil && id != none && t.strip[id]&side != 0
}

func trimRight(text string) string { return strings.TrimRightFunc(text, unicode.IsSpace) }
func trimLeft(text string) string  { return strings.TrimLeftFunc(text, unicode.IsSpace) }
