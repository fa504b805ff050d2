package tools

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Definitions returns tools as the chat templates of a format expect them: as in OpenAI's API,
// without "strict". format is nil for templates of unknown formats.
func Definitions(format *Format, list []generation.Tool) []ordered.Value {
	out := make([]ordered.Value, len(list))
	for i, t := range list {
		function := ordered.NewObject()
		function.Set("name", t.Name)
		if t.Description != "" || format.Reasons() { // gpt-oss's template needs one
			function.Set("description", t.Description)
		}
		s, _ := parseSchema(t.Parameters)
		if t.Parameters == "" {
			s, _ = parseSchema(`{"type":"object","properties":{}}`)
		}
		function.Set("parameters", s.root)
		tool := ordered.NewObject()
		tool.Set("type", "function")
		tool.Set("function", function)
		out[i] = tool
	}
	return out
}

// Used reports whether messages have calls or their results.
func Used(messages []ordered.Value) bool {
	for _, v := range messages {
		m, _ := v.(*ordered.Object)
		if m != nil && (len(calls(m)) > 0 || member(m, "role") == "tool") {
			return true
		}
	}
	return false
}

func calls(m *ordered.Object) []ordered.Value {
	list, _ := member(m, "tool_calls").([]ordered.Value)
	return list
}

// Prepare returns messages as the template of a format expects them, for a chat with the given
// tools. It does not change messages. format is nil for templates of unknown formats.
func Prepare(format *Format, messages []ordered.Value, list []generation.Tool) []ordered.Value {
	out := make([]ordered.Value, 0, len(messages))
	for _, v := range messages {
		m, ok := v.(*ordered.Object)
		if !ok {
			out = append(out, v)
			continue
		}
		if _, ok := m.Get("tool_calls"); ok || member(m, "tool_call_id") != nil {
			m = prepareMessage(format, m)
		}
		out = append(out, m)
	}
	orderResults(out)
	if format == nil {
		return out
	}
	if format.onePerMessage {
		out = splitCalls(out)
	}
	if format.written != nil {
		out = format.write(out)
	}
	if format.toolsText && len(list) > 0 {
		out = withToolsText(out, list)
	}
	return out
}

// write replaces messages with calls, and results, by messages that the template knows.
func (f *Format) write(messages []ordered.Value) []ordered.Value {
	out := make([]ordered.Value, 0, len(messages))
	for _, v := range messages {
		m, _ := v.(*ordered.Object)
		switch {
		case m != nil && len(calls(m)) > 0:
			out = append(out, f.written(withoutKey(m, "tool_calls"), calls(m))...)
		case f.resultRole != "" && isResult(v):
			m = m.Clone()
			m.Set("role", f.resultRole)
			out = append(out, m)
		default:
			out = append(out, v)
		}
	}
	return out
}

// withToolsText gives the system message the tools as a text in "tools", which Phi-4-mini's
// template writes. Without a system message, there is one with the words of the model's card.
func withToolsText(messages []ordered.Value, list []generation.Tool) []ordered.Value {
	functions := make([]string, len(list))
	for i, d := range Definitions(nil, list) {
		functions[i] = spaced(member(d.(*ordered.Object), "function"))
	}
	system := message("system", "You are a helpful assistant with some tools.")
	for i, v := range messages {
		if m, ok := v.(*ordered.Object); ok && member(m, "role") == "system" {
			system = m.Clone()
			messages = slices.Delete(messages, i, i+1)
			break
		}
	}
	system.Set("tools", "["+strings.Join(functions, ", ")+"]")
	return append([]ordered.Value{system}, messages...)
}

// orderResults puts the results after a message with several calls in the order of the calls, since
// most templates write results without their ids. Results without a known id come last.
func orderResults(messages []ordered.Value) {
	for i, v := range messages {
		m, _ := v.(*ordered.Object)
		if m == nil || len(calls(m)) < 2 {
			continue
		}
		place := map[string]int{}
		for n, v := range calls(m) {
			if call, ok := v.(*ordered.Object); ok {
				if id, ok := member(call, "id").(string); ok {
					place[id] = n - len(calls(m))
				}
			}
		}
		end := i + 1
		for end < len(messages) && isResult(messages[end]) {
			end++
		}
		placeOf := func(v ordered.Value) int {
			id, _ := member(v.(*ordered.Object), "tool_call_id").(string)
			return place[id]
		}
		slices.SortStableFunc(messages[i+1:end], func(a, b ordered.Value) int { return cmp.Compare(placeOf(a), placeOf(b)) })
	}
}

func isResult(v ordered.Value) bool {
	m, _ := v.(*ordered.Object)
	return m != nil && member(m, "role") == "tool"
}

func prepareMessage(format *Format, m *ordered.Object) *ordered.Object {
	list := calls(m)
	m = withoutKey(m, "tool_calls")
	if id, ok := member(m, "tool_call_id").(string); ok && format != nil && format.shortIDs {
		m.Set("tool_call_id", shortID(id))
	}
	if content, _ := m.Get("content"); content == nil {
		m.Set("content", "")
	}
	if len(list) == 0 { // some templates only test whether there is a list
		return m
	}
	if thoughts, ok := member(m, "reasoning_content").(string); ok && format.Reasons() && member(m, "content") == "" {
		m.Set("thinking", thoughts)
	}
	prepared := make([]ordered.Value, len(list))
	for i, v := range list {
		prepared[i] = v
		if call, ok := v.(*ordered.Object); ok {
			prepared[i] = prepareCall(format, call)
		}
	}
	m.Set("tool_calls", prepared)
	return m
}

func prepareCall(format *Format, call *ordered.Object) *ordered.Object {
	out := ordered.NewObject()
	if id, ok := call.Get("id"); ok {
		if text, ok := id.(string); ok && format != nil && format.shortIDs {
			id = shortID(text)
		}
		out.Set("id", id)
	}
	out.Set("type", "function")
	if f, ok := member(call, "function").(*ordered.Object); ok {
		function := ordered.NewObject()
		for _, key := range []string{"name", "arguments"} {
			if v, ok := f.Get(key); ok {
				function.Set(key, v)
			}
		}
		out.Set("function", function)
	}
	return out
}

// withoutKey returns a copy of an object without a key.
func withoutKey(o *ordered.Object, key string) *ordered.Object {
	out := ordered.NewObject()
	for k, v := range o.All() {
		if k != key {
			out.Set(k, v)
		}
	}
	return out
}

// shortLength is the length of ids in Mistral's formats.
const shortLength = 9

// shortID returns an id of 9 letters and digits for any id.
func shortID(id string) string {
	if len(id) == shortLength && strings.Trim(id, digits) == "" {
		return id
	}
	return newID(shortLength, id)
}

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewID returns the id of a call, which follows from the given values.
func (f *Format) NewID(of ...any) string {
	if f.shortIDs {
		return newID(shortLength, of...)
	}
	return "call_" + newID(24, of...)
}

// newID returns an id of up to 32 letters and digits that follows from the given values.
func newID(length int, of ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, of...))
	for i, b := range sum {
		sum[i] = digits[int(b)%len(digits)]
	}
	return string(sum[:length])
}

// splitCalls returns messages of which each has at most one call, with its result after it.
func splitCalls(messages []ordered.Value) []ordered.Value {
	out := make([]ordered.Value, 0, len(messages))
	for i := 0; i < len(messages); i++ {
		m, _ := messages[i].(*ordered.Object)
		if m == nil || len(calls(m)) < 2 {
			out = append(out, messages[i])
			continue
		}
		var results []*ordered.Object
		for ; i+1 < len(messages); i++ {
			if !isResult(messages[i+1]) {
				break
			}
			results = append(results, messages[i+1].(*ordered.Object))
		}
		out = append(out, split(m, results)...)
	}
	return out
}

func split(m *ordered.Object, results []*ordered.Object) (out []ordered.Value) {
	for n, v := range calls(m) {
		one := m.Clone()
		one.Set("tool_calls", []ordered.Value{v})
		if n > 0 {
			one = withoutKey(withoutKey(one, "thinking"), "reasoning_content")
			one.Set("content", "")
		}
		out = append(out, one)
		if i := resultOf(v, n, results); i >= 0 {
			out = append(out, results[i])
			results[i] = nil
		}
	}
	for _, r := range results {
		if r != nil {
			out = append(out, r)
		}
	}
	return out
}

// resultOf returns the index of the result of a call: the one with its id or, if there are no ids,
// the one at its place. It returns -1 if there is none.
func resultOf(call ordered.Value, n int, results []*ordered.Object) int {
	c, _ := call.(*ordered.Object)
	if c != nil {
		if id, ok := member(c, "id").(string); ok {
			for i, r := range results {
				if r != nil && member(r, "tool_call_id") == id {
					return i
				}
			}
		}
	}
	if n < len(results) && results[n] != nil && member(results[n], "tool_call_id") == nil {
		return n
	}
	return -1
}
