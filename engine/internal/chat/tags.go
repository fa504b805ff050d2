package chat

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/tokenizer"
)

// Tags has the tokens of a vocabulary that matter where reasoning begins and ends.
type Tags struct {
	// Openers are the tokens with which an answer can begin its reasoning: the opening tag,
	// possibly with space around it or the first text of the reasoning.
	Openers []int32
	// Breaks are the tokens that consist of line breaks.
	Breaks []int32

	pair      TagPair
	tokenizer *tokenizer.Tokenizer
	crossing  [][]int32 // [bytes of the closing tag so far] tokens that complete the tag and add content
}

// NewTags searches a vocabulary for the tokens.
func NewTags(t *tokenizer.Tokenizer, pair TagPair) *Tags {
	tags := &Tags{pair: pair, tokenizer: t, crossing: make([][]int32, len(pair.Close))}
	for id := range int32(t.Size()) {
		text := tags.text(id)
		trimmed := bytes.TrimLeft(text, " \n")
		if bytes.HasPrefix(trimmed, []byte(pair.Open)) && !bytes.Contains(text, []byte(pair.Close)) {
			tags.Openers = append(tags.Openers, id)
		}
		if len(text) > 0 && len(bytes.TrimLeft(text, "\n")) == 0 {
			tags.Breaks = append(tags.Breaks, id)
		}
		if bytes.IndexByte(text, pair.Close[len(pair.Close)-1]) >= 0 {
			tags.findCrossing(id, string(text))
		}
	}
	return tags
}

func (t *Tags) findCrossing(id int32, text string) {
	for begun := range t.crossing {
		_, content, closes := strings.Cut(t.pair.Close[:begun]+text, t.pair.Close)
		if closes && strings.TrimLeft(content, "\n") != "" {
			t.crossing[begun] = append(t.crossing[begun], id)
		}
	}
}

// text returns the text of a token as Splitter needs it: for a control token, its name.
func (t *Tags) text(id int32) []byte {
	if b := t.tokenizer.Bytes(id); b != nil {
		return b
	}
	return []byte(t.tokenizer.Token(id))
}

// Thinking follows the reasoning at the beginning of an answer, token by token. Its zero value is
// for answers without reasoning. A copy changes independently of the original.
type Thinking struct {
	tags     *Tags
	splitter Splitter
	stage    Stage
}

// Stage is a part of an answer.
type Stage int

// The stages of an answer.
const (
	// StageContent is the content, after reasoning or without any.
	StageContent Stage = iota
	// StageStart is the beginning of an answer that may still begin with reasoning.
	StageStart
	// StageReasoning is the reasoning.
	StageReasoning
	// StageGap is directly after the reasoning. Line breaks there are not part of the content.
	StageGap
)

// Begin returns the state at the start of an answer. prompt is the text at the end of the prompt.
func (t *Tags) Begin(prompt string) Thinking {
	th := Thinking{tags: t, splitter: *NewSplitter(t.pair, prompt)}
	switch {
	case th.splitter.Reasoning():
		th.stage = StageReasoning
	case len(t.Openers) > 0 && !strings.HasSuffix(strings.TrimSpace(prompt), t.pair.Close):
		th.stage = StageStart
	}
	return th
}

// Tags returns the tokens of the vocabulary; nil if the answer has no reasoning.
func (t *Thinking) Tags() *Tags { return t.tags }

// Stage returns the stage to which the next token belongs.
func (t *Thinking) Stage() Stage { return t.stage }

// MayOpen reports whether the next token may be one of Tags.Openers: in StageStart, while the text
// is only white space. After the first bytes of an opening tag ("<t"), which can be content too, an
// opener would make them content.
func (t *Thinking) MayOpen() bool {
	return t.stage == StageStart && strings.TrimLeft(t.splitter.held, " \n") == ""
}

// Crossing returns the tokens that must not follow in the reasoning, because they contain both the
// end of the closing tag and content.
func (t *Thinking) Crossing() []int32 {
	return t.tags.crossing[overlap(t.splitter.held, t.tags.pair.Close)]
}

// Next moves past a token that is not a stop token. It reports whether the token belongs to the
// content. If the stage then is StageReasoning, earlier tokens that belonged to the content were
// the space before the opening tag.
func (t *Thinking) Next(id int32) (content bool) {
	before := t.stage
	switch {
	case before == StageContent:
		return true
	case before == StageGap && slices.Contains(t.tags.Breaks, id):
		t.stage = StageContent // further line breaks belong to the content
		return false
	}
	t.splitter.Next(string(t.tags.text(id)), false)
	t.stage = [...]Stage{splitStart: StageStart, splitReasoning: StageReasoning, splitGap: StageGap, splitContent: StageContent}[t.splitter.state]
	switch before {
	case StageReasoning:
		return t.stage == StageContent // the token is one of Crossing
	case StageStart:
		return t.stage == StageStart || t.stage == StageContent
	}
	return true
}
