package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/gguf"
)

type kind uint8

const (
	kindUndefined kind = iota
	kindNormal
	kindUnknown
	kindControl
	kindUserDefined
	kindUnused
	kindByte
)

type vocabulary struct {
	tokens        []string
	kinds         []kind
	ids           map[string]int32 // ids of the tokens by their texts; tokens with an empty text are left out
	bos, eos, unk int32            // none if the file does not name the token
	stop          []int32          // tokens that end an answer; see StopIDs
	addBOS        bool
	addEOS        bool
}

const prefix = "tokenizer.ggml."

func loadVocabulary(meta *gguf.Metadata, defaultBOS bool) (*vocabulary, error) {
	tokens, err := meta.Strings(prefix + "tokens")
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 || len(tokens) > math.MaxInt32/2 {
		return nil, fmt.Errorf("metadata %stokens: has %d tokens, but must have 1 to %d", prefix, len(tokens), math.MaxInt32/2)
	}
	v := &vocabulary{tokens: tokens, ids: make(map[string]int32, len(tokens))}
	for i, text := range tokens {
		if text == "" {
			continue
		}
		if first, ok := v.ids[text]; ok {
			return nil, fmt.Errorf("metadata %stokens: tokens %d and %d are both %.100q", prefix, first, i, text)
		}
		v.ids[text] = int32(i)
	}
	if v.kinds, err = loadKinds(meta, len(tokens)); err != nil {
		return nil, err
	}
	if v.unk, err = v.role(meta, "unknown_token_id"); err != nil {
		return nil, err
	}
	if v.addBOS, err = flag(meta, "add_bos_token", defaultBOS); err != nil {
		return nil, err
	}
	if v.addEOS, err = flag(meta, "add_eos_token", false); err != nil {
		return nil, err
	}
	if err := v.loadEnds(meta); err != nil {
		return nil, err
	}
	return v, nil
}

func loadKinds(meta *gguf.Metadata, n int) ([]kind, error) {
	kinds := make([]kind, n)
	types, err := meta.Ints(prefix + "token_type")
	if errors.Is(err, gguf.ErrMissing) {
		for i := range kinds {
			kinds[i] = kindNormal
		}
		return kinds, nil
	}
	if err != nil {
		return nil, err
	}
	if len(types) != n {
		return nil, fmt.Errorf("metadata %stoken_type: has %d types for %d tokens", prefix, len(types), n)
	}
	for i, t := range types {
		if t >= 0 && t <= int64(kindByte) {
			kinds[i] = kind(t)
		}
	}
	return kinds, nil
}

// checkSpecial returns an error if a special token is too long.
func (v *vocabulary) checkSpecial() error {
	for id, text := range v.tokens {
		if v.isSpecial(id) && len(text) > maxSpecialBytes {
			return fmt.Errorf("metadata %stokens: special token %d has %d bytes, more than %d", prefix, id, len(text), maxSpecialBytes)
		}
	}
	return nil
}

// plainUnknown returns the token of plain text that has no token, or none. Files for byte-level
// vocabularies often name a control token as the unknown token, such as the one that ends a
// document. Such a token has another meaning, and so never results from plain text.
func (v *vocabulary) plainUnknown() int32 {
	if v.unk != none && v.kinds[v.unk] == kindControl {
		return none
	}
	return v.unk
}

func (v *vocabulary) isSpecial(id int) bool {
	switch v.kinds[id] {
	case kindControl, kindUnknown, kindUserDefined:
		return true
	}
	return false
}

// role reads the id of a token with a special role. It returns none if the key is absent or has the
// value 2^32-1 or -1, which mean no token.
func (v *vocabulary) role(meta *gguf.Metadata, key string) (int32, error) {
	id, err := meta.Int(prefix + key)
	if errors.Is(err, gguf.ErrMissing) || err == nil && (id == -1 || id == math.MaxUint32) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	if id < 0 || id >= int64(len(v.tokens)) {
		return none, fmt.Errorf("metadata %s%s: %d is not the id of a token; the vocabulary has %d tokens", prefix, key, id, len(v.tokens))
	}
	return int32(id), nil
}

func flag(meta *gguf.Metadata, key string, fallback bool) (bool, error) {
	b, err := meta.Bool(prefix + key)
	if errors.Is(err, gguf.ErrMissing) {
		return fallback, nil
	}
	return b, err
}

// endTexts are the texts of tokens that end a message or a document in supported models. Some files
// do not name all of these tokens: they were converted before eot_token_id and eom_token_id
// existed, or they have the eos_token_id of a base model. Without endTexts, a model tuned for chat
// would then never stop. Only tokens that the file marks as control tokens are used.
var endTexts = []string{
	"<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|EOT|>",
	"<end_of_turn>", "<turn|>", "<｜end▁of▁sentence｜>",
}

// glmEndTexts are the texts of tokens that end an answer in GLM's vocabularies. These have no token
// for the end of a message: the model generates the token with which the next message begins
// instead.
var glmEndTexts = []string{"<|user|>", "<|observation|>"}

// harmonyEnds corrects the stop tokens of gpt-oss's vocabulary. An answer ends with <|return|>, or
// with <|call|> if a tool is called. <|end|> ends a message within the answer, such as the
// reasoning before the final message.
func (v *vocabulary) harmonyEnds() {
	control := func(text string) (int32, bool) {
		id, ok := v.ids[text]
		return id, ok && v.kinds[id] == kindControl
	}
	done, returns := control("<|return|>")
	call, calls := control("<|call|>")
	if !returns || !calls {
		return
	}
	if end, ok := v.ids["<|end|>"]; ok {
		v.stop = slices.DeleteFunc(v.stop, func(id int32) bool { return id == end })
	}
	v.stop = append(v.stop, done, call)
}

// gemmaEnds adds the token with which Gemma 4 begins the result of a tool: the model generates it
// after its calls, and then waits for the results. Files mark it as user-defined.
func (v *vocabulary) gemmaEnds() {
	_, turns := v.ids["<turn|>"]
	if id, ok := v.ids["<|tool_response>"]; ok && turns {
		v.stop = append(v.stop, id)
	}
}

func (v *vocabulary) loadEnds(meta *gguf.Metadata) error {
	roles := map[string]int32{}
	for _, key := range []string{"bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id"} {
		id, err := v.role(meta, key)
		if err != nil {
			return err
		}
		roles[key] = id
		// Old files mark every token as normal.
		if id != none && v.kinds[id] <= kindNormal {
			v.kinds[id] = kindControl
		}
		if id != none && key != "bos_token_id" {
			v.stop = append(v.stop, id)
		}
	}
	v.bos, v.eos = roles["bos_token_id"], roles["eos_token_id"]
	if v.addBOS && v.bos == none {
		return fmt.Errorf("metadata %sbos_token_id: the model needs a BOS token before each text, but the file names none", prefix)
	}
	if v.addEOS && v.eos == none {
		return fmt.Errorf("metadata %seos_token_id: the model needs an EOS token after each text, but the file names none", prefix)
	}
	texts := endTexts
	if _, glm := v.ids["[gMASK]"]; glm {
		texts = slices.Concat(texts, glmEndTexts)
	}
	for _, text := range texts {
		if id, ok := v.ids[text]; ok && v.kinds[id] == kindControl {
			v.stop = append(v.stop, id)
		}
	}
	v.harmonyEnds()
	v.gemmaEnds()
	slices.Sort(v.stop)
	v.stop = slices.Compact(v.stop)
	return nil
}
