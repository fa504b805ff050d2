package chat

import "strings"

// The tags around the reasoning that precedes an answer, in the templates of all models that have it.
const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// Reasons reports whether the model's answers can begin with reasoning between tags.
func (t *Template) Reasons() bool { return t.reasons }

// Splitter separates the reasoning of an answer from its content, as the text of the answer comes. The tags and the empty lines next to
// them belong to neither.
type Splitter struct {
	state splitState
	held  string // text that may be a part of a tag, or space before one
}

type splitState int

const (
	splitStart     splitState = iota // nothing but space has come
	splitReasoning                   // after the opening tag
	splitGap                         // after the closing tag, before the content
	splitContent
)

// NewSplitter returns a splitter of the answer to a prompt. The end of the prompt decides whether the answer begins with reasoning: it
// does if the template has written the opening tag.
func NewSplitter(prompt string) *Splitter {
	if strings.HasSuffix(strings.TrimSpace(prompt), thinkOpen) {
		return &Splitter{state: splitReasoning}
	}
	return &Splitter{}
}

// Reasoning reports whether the text so far ends within the reasoning.
func (s *Splitter) Reasoning() bool { return s.state == splitReasoning }

// Next returns the reasoning and the content in the next part of the text. ended means that it is the last part.
func (s *Splitter) Next(text string, ended bool) (reasoning, content string) {
	text = s.held + text
	s.held = ""
	if s.state == splitStart {
		rest := strings.TrimLeft(text, " \n")
		switch {
		case strings.HasPrefix(rest, thinkOpen):
			s.state, text = splitReasoning, rest[len(thinkOpen):]
		case strings.HasPrefix(thinkOpen, rest) && !ended:
			s.held = text
			return "", ""
		default:
			s.state = splitContent
		}
	}
	if s.state == splitReasoning {
		before, after, closed := strings.Cut(text, thinkClose)
		if !closed {
			keep := len(text)
			if !ended {
				keep -= overlap(text, thinkClose)
			}
			keep = len(strings.TrimRight(text[:keep], "\n")) // it may be the line before the tag
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

// overlap returns the length of the longest end of a text with which a tag begins.
func overlap(text, tag string) int {
	for n := min(len(tag)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
