package task

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Message is a part of a prompt. Content is its text in a chat. In a prompt without chat template,
// a delimiter follows.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	after   string
}

// turn returns the messages of a question and its answer. answer is empty for the row that is
// asked. prefix is the beginning of the answer, delimiter precedes the answer, and after follows
// it. The spaces are those of the harness's function build_qa_turn.
func turn(question, answer, prefix, delimiter, after string) []Message {
	m := Message{Role: "user", Content: question}
	if answer != "" && prefix == "" || prefix != "" && question != "" && !spaceBetween(question, prefix) {
		m.after = delimiter
	}
	switch {
	case answer == "" && prefix == "":
		return []Message{m}
	case answer == "":
		return []Message{m, {Role: "assistant", Content: prefix}}
	case prefix != "" && !spaceBetween(prefix, answer):
		prefix += " "
	}
	return []Message{m, {"assistant", prefix + answer, after}}
}

// spaceBetween reports whether one of two texts that are not empty has white space where they meet.
func spaceBetween(a, b string) bool {
	last, _ := utf8.DecodeLastRuneInString(a)
	first, _ := utf8.DecodeRuneInString(b)
	return unicode.IsSpace(last) || unicode.IsSpace(first)
}

// join returns the text of messages for a model without chat template.
func join(messages []Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.Content)
		b.WriteString(m.after)
	}
	return b.String()
}

// ChatMessages returns the messages of a chat. Without multiturn, questions and answers of examples
// and the row's question are one message of the user.
func (p *Prompt) ChatMessages(multiturn bool) []Message {
	if multiturn {
		return p.Messages
	}
	var list []Message
	rest := p.Messages
	if len(rest) > 0 && rest[0].Role == "system" {
		list, rest = append(list, rest[0]), rest[1:]
	}
	n := len(rest)
	if n > 0 && rest[n-1].Role == "assistant" {
		n--
	}
	var text strings.Builder
	for i, m := range rest[:n] {
		text.WriteString(m.Content)
		if i < n-1 {
			text.WriteString(m.after)
		}
	}
	return append(append(list, Message{Role: "user", Content: text.String()}), rest[n:]...)
}
