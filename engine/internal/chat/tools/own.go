package tools

import (
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Place is where Own writes the tools.
type Place int

// The places.
const (
	InSystem Place = iota // the system message
	InUser                // the first message of the user, for templates without a system message
)

// Own writes tools, calls and their results into the texts of messages in Hermes's format, for
// models whose template does not render them. It does not change messages.
func Own(messages []ordered.Value, list []generation.Tool, place Place) []ordered.Value {
	var out []ordered.Value
	merge := false // the last message has results
	for _, v := range messages {
		m, ok := v.(*ordered.Object)
		if !ok {
			out, merge = append(out, v), false
			continue
		}
		content, _ := member(m, "content").(string)
		isResult := member(m, "role") == "tool"
		switch {
		case isResult:
			m = message("user", "<tool_response>\n"+content+"\n</tool_response>")
		case len(calls(m)) > 0:
			m = withoutKey(m, "tool_calls")
			m.Set("content", written(content, calls(v.(*ordered.Object))))
		}
		if merge && member(m, "role") == "user" { // templates want user and assistant to take turns
			last := out[len(out)-1].(*ordered.Object)
			text, _ := member(m, "content").(string)
			out[len(out)-1] = message("user", member(last, "content").(string)+"\n"+text)
		} else {
			out = append(out, m)
		}
		merge = isResult || merge && member(m, "role") == "user"
	}
	if len(list) == 0 {
		return out
	}
	return introduce(out, introduction(list), place)
}

func message(role, content string) *ordered.Object {
	m := ordered.NewObject()
	m.Set("role", role)
	m.Set("content", content)
	return m
}

// written returns the content of a message with calls.
func written(content string, list []ordered.Value) string {
	parts := []string{}
	if content != "" {
		parts = append(parts, content)
	}
	for _, v := range list {
		if name, arguments, ok := function(v); ok {
			parts = append(parts, openMark+"\n"+`{"name": `+quote(name)+`, "arguments": `+spaced(arguments)+"}\n"+closeMark)
		}
	}
	return strings.Join(parts, "\n")
}

// function returns the function that a call names, and its arguments.
func function(call ordered.Value) (name string, arguments ordered.Value, ok bool) {
	c, ok := call.(*ordered.Object)
	if !ok {
		return "", nil, false
	}
	f, ok := member(c, "function").(*ordered.Object)
	if !ok {
		return "", nil, false
	}
	name, _ = member(f, "name").(string)
	return name, member(f, "arguments"), true
}

// introduction describes the tools with the words of Qwen's template.
func introduction(list []generation.Tool) string {
	var b strings.Builder
	b.WriteString("# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>")
	for _, t := range Definitions(nil, list) {
		b.WriteString("\n" + spaced(t))
	}
	b.WriteString("\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n" +
		"<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>")
	return b.String()
}

// introduce adds a text to the first message of the place's role, or as a message of its own.
func introduce(messages []ordered.Value, text string, place Place) []ordered.Value {
	role, other := "system", "developer"
	if place == InUser {
		role, other = "user", "user"
	}
	for i, v := range messages {
		m, _ := v.(*ordered.Object)
		if m == nil || member(m, "role") != role && member(m, "role") != other {
			continue
		}
		content, _ := member(m, "content").(string)
		m = m.Clone()
		if place == InUser {
			m.Set("content", text+"\n\n"+content)
		} else {
			m.Set("content", content+"\n\n"+text)
		}
		messages[i] = m
		return messages
	}
	return append([]ordered.Value{message(role, text)}, messages...)
}

// spaced returns a value as JSON with a space after commas and colons, as Python and templates
// write it.
func spaced(v ordered.Value) string {
	compact := ordered.AppendJSON(nil, v)
	var b strings.Builder
	quoted := false
	for i, c := range compact {
		b.WriteByte(c)
		switch {
		case c == '"' && !escaped(compact[:i]):
			quoted = !quoted
		case !quoted && (c == ',' || c == ':'):
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// escaped reports whether a text ends with an odd number of backslashes.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
