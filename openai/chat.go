package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// chatContext returns the variables of a chat template: messages, tools and the template's own settings.
func (o *object) chatContext() *ordered.Object {
	ctx := ordered.NewObject()
	ctx.Set("messages", o.messages())
	forbidden := o.toolsForbidden()
	if raw, ok := o.get("tools", array); ok && !forbidden {
		if tools, ok := o.parse("tools", raw).([]ordered.Value); ok && len(tools) > 0 {
			ctx.Set("tools", tools)
		}
	}
	for _, name := range []string{"documents", "reasoning_effort"} {
		if raw, ok := o.get(name, text, array); ok {
			ctx.Set(name, o.parse(name, raw))
		}
	}
	if _, ok := o.get("add_generation_prompt", boolean); ok {
		ctx.Set("add_generation_prompt", o.boolean("add_generation_prompt"))
	}
	if o.boolean(continueFinal) {
		o.checkContinued(ctx)
		ctx.Set(continueFinal, true)
	}
	if _, ok := o.get("enable_thinking", boolean); ok {
		ctx.Set("enable_thinking", o.boolean("enable_thinking"))
	}
	if raw, ok := o.get("chat_template_kwargs", dict); ok {
		extra, _ := o.parse("chat_template_kwargs", raw).(*ordered.Object)
		if extra == nil {
			return ctx
		}
		for _, key := range extra.Keys() {
			if key == "messages" || key == "tools" {
				o.fail(CodeInvalidValue, `"chat_template_kwargs" cannot set %q: give it in the body itself`, key)
			}
			if key == "enable_thinking" && o.has(key) {
				o.fail(CodeInvalidValue, `"enable_thinking" is in the body and in "chat_template_kwargs": give one`)
			}
			v, _ := extra.Get(key)
			ctx.Set(key, v)
		}
	}
	return ctx
}

// continueFinal is the field that makes the answer continue the chat's last message.
const continueFinal = "continue_final_message"

// checkContinued sets an error if the answer cannot continue the last message: if that is not a text of the assistant, or if the request
// also sets add_generation_prompt.
func (o *object) checkContinued(ctx *ordered.Object) {
	v, _ := ctx.Get("messages")
	messages, _ := v.([]ordered.Value)
	if len(messages) == 0 {
		return // the method messages has set an error
	}
	last, _ := messages[len(messages)-1].(*ordered.Object)
	if last == nil {
		return
	}
	role, _ := last.Get("role")
	content, _ := last.Get("content")
	if text, _ := content.(string); role != "assistant" || text == "" {
		o.fail(CodeInvalidValue, `%q needs a last message with the role "assistant" and a non-empty content`, continueFinal)
	}
	if o.boolean("add_generation_prompt") {
		o.fail(CodeInvalidValue, `%q and "add_generation_prompt" cannot both be true`, continueFinal)
	}
}

func (o *object) parse(name string, raw json.RawMessage) ordered.Value {
	v, err := ordered.ParseJSON(raw)
	if err != nil {
		o.fail(CodeInvalidJSON, "%q: %v", o.path+name, err)
		return nil
	}
	return v
}

// toolsForbidden reports whether the request forbids tool calls. If it does, the template gets no tools. If the request requires a tool
// call, toolsForbidden sets an error.
func (o *object) toolsForbidden() bool {
	raw, ok := o.get("tool_choice", text, dict)
	if !ok {
		return false
	}
	choice := "a named tool"
	if kindOf(raw) == text {
		choice, _ = o.text("tool_choice")
	}
	if choice != "auto" && choice != "none" {
		o.fail(CodeUnsupported, `"tool_choice" must be "auto" or "none": a tool call cannot be forced`)
	}
	return choice == "none"
}

// messages returns a chat's messages. Several text parts of a content are joined with newlines, because templates expect strings.
func (o *object) messages() []ordered.Value {
	raw, ok := o.get("messages", array)
	if !ok {
		o.fail(CodeMissing, `"messages" is missing`)
		return nil
	}
	list, _ := o.parse("messages", raw).([]ordered.Value)
	if len(list) == 0 {
		o.fail(CodeInvalidValue, `"messages" is empty`)
		return nil
	}
	for i, v := range list {
		m, ok := v.(*ordered.Object)
		if !ok {
			o.fail(CodeInvalidType, `"messages[%d]" must be an object, not %s`, i, kindOfValue(v))
			return nil
		}
		o.message(i, m)
	}
	return list
}

// roles are OpenAI's roles. Other roles are errors, because templates silently omit messages with unknown roles.
var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

func (o *object) message(i int, m *ordered.Object) {
	v, ok := m.Get("role")
	role, isText := v.(string)
	switch {
	case !ok:
		o.fail(CodeMissing, `"messages[%d].role" is missing`, i)
	case !isText:
		o.fail(CodeInvalidType, `"messages[%d].role" must be a string, not %s`, i, kindOfValue(v))
	case !slices.Contains(roles, role):
		o.fail(CodeInvalidValue, `"messages[%d].role" must be one of %s, not %q`, i, strings.Join(roles, ", "), role)
	}
	content, ok := m.Get("content")
	switch content := content.(type) {
	case string:
	case []ordered.Value:
		m.Set("content", o.joinParts(i, content))
	case nil:
		if role != "assistant" { // a message with only tool calls may have no content
			o.missingContent(i, ok)
		}
	default:
		o.fail(CodeInvalidType, `"messages[%d].content" must be a string or an array, not %s`, i, kindOfValue(content))
	}
	for _, name := range []string{"images", "videos"} { // the templates of text models ignore these
		if v, _ := m.Get(name); v != nil {
			o.fail(CodeUnsupported, `"messages[%d].%s" is not supported: only text can be used`, i, name)
		}
	}
	parseArguments(m)
}

func (o *object) missingContent(i int, isNull bool) {
	if isNull {
		o.fail(CodeInvalidType, `"messages[%d].content" must be a string or an array, not null`, i)
		return
	}
	o.fail(CodeMissing, `"messages[%d].content" is missing`, i)
}

func (o *object) joinParts(i int, parts []ordered.Value) string {
	texts := make([]string, len(parts))
	for k, v := range parts {
		part, ok := v.(*ordered.Object)
		if !ok {
			o.fail(CodeInvalidType, `"messages[%d].content[%d]" must be an object, not %s`, i, k, kindOfValue(v))
			return ""
		}
		named, _ := part.Get("type")
		if name, _ := named.(string); name != "text" {
			o.fail(CodeUnsupported, `"messages[%d].content[%d].type" must be "text", not %q: only text can be used`, i, k, name)
			return ""
		}
		s, _ := part.Get("text")
		if texts[k], ok = s.(string); !ok {
			o.fail(CodeInvalidType, `"messages[%d].content[%d].text" must be a string, not %s`, i, k, kindOfValue(s))
			return ""
		}
	}
	return strings.Join(texts, "\n")
}

// parseArguments parses the arguments of tool calls in earlier messages. OpenAI's messages have them as JSON text, and templates expect
// objects.
func parseArguments(m *ordered.Object) {
	v, _ := m.Get("tool_calls")
	calls, _ := v.([]ordered.Value)
	for _, c := range calls {
		call, ok := c.(*ordered.Object)
		if !ok {
			continue
		}
		f, _ := call.Get("function")
		function, ok := f.(*ordered.Object)
		if !ok {
			continue
		}
		args, _ := function.Get("arguments")
		source, ok := args.(string)
		if !ok {
			continue
		}
		if parsed, err := ordered.ParseJSON([]byte(source)); err == nil {
			function.Set("arguments", parsed)
		}
	}
}

func kindOfValue(v ordered.Value) kind {
	switch v.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case string:
		return text
	case []ordered.Value:
		return array
	case *ordered.Object:
		return dict
	}
	return number
}
