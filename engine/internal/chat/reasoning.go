package chat

import "strings"

// TagPair has the tags around the reasoning that precedes an answer.
type TagPair struct {
	Open, Close string
	// label is a text after the opening tag that is not part of the reasoning.
	label string
}

// The tags of Gemma 4, and those of most other models. Further tags are not recognised.
var (
	Think    = TagPair{Open: "<think>", Close: "</think>"}
	Channels = TagPair{Open: "<|channel>", Close: "<channel|>", label: "thought\n"}
)

// reasoningTags returns the tags of which a template contains the closing one.
func reasoningTags(template string) (tags TagPair, ok bool) {
	for _, tags := range []TagPair{Think, Channels} {
		if strings.Contains(template, tags.Close) {
			return tags, true
		}
	}
	return Think, false
}

// Reasons reports whether the model's answers can begin with reasoning between Tags.
func (t *Template) Reasons() bool { return t.reasons }

// Tags returns the tags around reasoning.
func (t *Template) Tags() TagPair { return t.tags }

// Splitter separates the reasoning of an answer from its content while the answer is generated. It
// removes the tags and the line breaks next to them.
type Splitter struct {
	tags     TagPair
	state    splitState
	labelled bool   // the text after the opening tag is past the label
	begun    bool   // the reasoning is past the line breaks after the opening tag and the label
	held     string // text that is not returned yet, because it may be part of a tag, of a label or the space before a tag
}

type splitState int

const (
	splitStart     splitState = iota // the text so far is only space
	splitReasoning                   // after the opening tag, in the reasoning
	splitGap                         // after the closing tag, before the content
	splitContent
)

// NewSplitter returns a splitter for the answer to a prompt. If the template has written the
// opening tag at the end of the prompt, the answer begins with reasoning.
func NewSplitter(tags TagPair, prompt string) *Splitter {
	s := &Splitter{tags: tags}
	prompt = strings.TrimSpace(prompt)
	unlabelled := strings.TrimSuffix(prompt, strings.TrimSpace(tags.label))
	if strings.HasSuffix(unlabelled, tags.Open) {
		s.state, s.labelled = splitReasoning, unlabelled != prompt
	}
	return s
}

// Reasoning reports whether the text so far ends within the reasoning.
func (s *Splitter) Reasoning() bool { return s.state == splitReasoning }

// Next processes the next part of the answer's text, and returns the reasoning and the content in
// it. ended must be true for the last part. In earlier parts, text that may belong to a tag is held
// back until the next call.
func (s *Splitter) Next(text string, ended bool) (reasoning, content string) {
	text = s.held + text
	s.held = ""
	if s.state == splitStart {
		rest := strings.TrimLeft(text, " \n")
		switch {
		case strings.HasPrefix(rest, s.tags.Open):
			s.state, text = splitReasoning, rest[len(s.tags.Open):]
		case strings.HasPrefix(s.tags.Open, rest) && !ended:
			s.held = text
			return "", ""
		default:
			s.state = splitContent
		}
	}
	if s.state == splitReasoning && !s.labelled {
		if strings.HasPrefix(s.tags.label, text) && text != s.tags.label && !ended {
			s.held = text
			return "", ""
		}
		s.labelled, text = true, strings.TrimPrefix(text, s.tags.label)
	}
	if s.state == splitReasoning {
		if !s.begun {
			text = strings.TrimLeft(text, "\n")
			s.begun = text != ""
		}
		before, after, closed := strings.Cut(text, s.tags.Close)
		if !closed {
			keep := len(text)
			if !ended {
				keep -= overlap(text, s.tags.Close)
			}
			keep = len(strings.TrimRight(text[:keep], "\n")) // a final line break may precede the closing tag
			if ended {
				return text[:keep], ""
			}
			s.held = text[keep:]
			return text[:keep], ""
		}
		s.state = splitGap
		reasoning, text = strings.TrimRight(before, "\n"), after
	}
	if s.state == splitGap {
		if text = strings.TrimLeft(text, "\n"); text != "" {
			s.state = splitContent
		}
	}
	return reasoning, text
}

// overlap returns how many bytes at the end of a text can be the beginning of a tag: 3 for the text
// "so <th" and the tag "<think>".
func overlap(text, tag string) int {
	for n := min(len(tag)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
