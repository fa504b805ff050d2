package chat

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Literal prepares a chat so that no text of its messages becomes a control token. In the copy that
// it returns, a mark follows the first character of each text that could become one. CutMarks finds
// these places in the prompt, whatever the template has done with the texts. The mark is empty if
// there is no such text.
func Literal(ctx context.Context, chat *ordered.Object, t *tokenizer.Tokenizer) (marked *ordered.Object, mark string, err error) {
	messages, _ := chat.Get("messages")
	l := literal{ctx: ctx, tokenizer: t, mark: unused(messages)}
	if l.mark == "" {
		return nil, "", generation.BadPrompt("the messages have all of the characters U+FDD0 to U+FDEF, which are reserved for programs: remove one of them")
	}
	list, _ := messages.([]ordered.Value)
	with := make([]ordered.Value, len(list))
	for i, m := range list {
		with[i] = l.message(m)
	}
	if l.err != nil || !l.found {
		return chat, "", l.err
	}
	marked = chat.Clone()
	marked.Set("messages", with)
	return marked, l.mark, nil
}

// unused returns a character that does not occur in a value: one that Unicode reserves for uses
// like this. It is empty if all of them occur.
func unused(v ordered.Value) string {
	text := string(ordered.AppendJSON(nil, v))
	for r := rune(0xFDD0); r <= 0xFDEF; r++ {
		if !strings.ContainsRune(text, r) {
			return string(r)
		}
	}
	return ""
}

// literal marks the texts of messages.
type literal struct {
	ctx       context.Context
	tokenizer *tokenizer.Tokenizer
	mark      string
	found     bool
	err       error
}

// message marks the texts of a message, but not its role, which the template compares.
func (l *literal) message(v ordered.Value) ordered.Value {
	with := l.value(v)
	if given, ok := v.(*ordered.Object); ok {
		if role, ok := given.Get("role"); ok {
			with.(*ordered.Object).Set("role", role)
		}
	}
	return with
}

func (l *literal) value(v ordered.Value) ordered.Value {
	switch v := v.(type) {
	case string:
		return l.text(v)
	case []ordered.Value:
		list := make([]ordered.Value, len(v))
		for i, each := range v {
			list[i] = l.value(each)
		}
		return list
	case *ordered.Object:
		o := ordered.NewObject()
		for key, each := range v.All() {
			o.Set(l.text(key), l.value(each))
		}
		return o
	}
	return v
}

func (l *literal) text(s string) string {
	marked, err := l.tokenizer.MarkControls(l.ctx, s, l.mark)
	if err != nil {
		l.err = err
		return s
	}
	l.found = l.found || len(marked) > len(s)
	return marked
}

// CutMarks removes the marks of Literal from a prompt. It returns the characters before them as
// parts for tokenizer.EncodeOptions.Literal.
func CutMarks(prompt, mark string) (text string, parts [][2]int) {
	if mark == "" {
		return prompt, nil
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(prompt, mark)
		out.WriteString(before)
		if !found {
			return out.String(), parts
		}
		_, n := utf8.DecodeLastRuneInString(before)
		if end := out.Len(); n > 0 {
			parts = append(parts, [2]int{end - n, end})
		}
		prompt = after
	}
}
