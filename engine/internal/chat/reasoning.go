package chat

import "strings"

// The tags around the reasoning that precedes an answer. Most reasoning models use these tags.
// Other tags are not recognised.
const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// ThinkTags are the tags around reasoning.
var ThinkTags = []string{thinkOpen, thinkClose}

// Reasons reports whether the model's answers can begin with reasoning between <think> and
// </think>.
func (t *Template) Reasons() bool { return t.reasons }

// Splitter separates the reasoning of an answer from its content while the answer is generated. It
// removes the tags and the line breaks next to them.
type Splitter struct {
	state splitState
	held  string // text that is not returned yet, because it may be part of a tag or the space before a tag
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
func NewSplitter(prompt string) *Splitter {
	if strings.HasSuffix(strings.TrimSpace(prompt), thinkOpen) {
		return &Splitter{state: splitReasoning}
	}
	return &Splitter{}
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
