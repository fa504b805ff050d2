package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

func (r *Request) readVariable(o *object, f *Field) {
	types := []jsonType{text, array}
	if f.Kind == Boolean {
		types = []jsonType{boolean}
	}
	if raw, ok := o.get(f.Name, types...); ok {
		r.chat.Set(f.Name, o.parse(f.Name, raw))
	}
}

func (r *Request) readTemplateSettings(o *object, f *Field) {
	raw, ok := o.get(f.Name, dict)
	if !ok {
		return
	}
	extra, _ := o.parse(f.Name, raw).(*ordered.Object)
	if extra == nil {
		return
	}
	for _, key := range extra.Keys() {
		if key == "messages" || key == "tools" {
			o.fail(CodeInvalidValue, `"chat_template_kwargs" cannot set %.100q: give it in the body itself`, key)
		}
		if key == "enable_thinking" && o.has(key) {
			o.fail(CodeInvalidValue, `"enable_thinking" is in the body and in "chat_template_kwargs": give one`)
		}
		v, _ := extra.Get(key)
		r.chat.Set(key, v)
	}
}

// continueFinal is the field that makes the answer continue the chat's last message.
const continueFinal = "continue_final_message"

// readContinued sets an error if the answer cannot continue the last message: if that is not a text
// of the assistant, or if the request also sets add_generation_prompt.
func (r *Request) readContinued(o *object, f *Field) {
	if !o.boolean(f.Name) {
		return
	}
	r.chat.Set(f.Name, true)
	messages, _ := member(r.chat, "messages").([]ordered.Value) // objects, and at least one, or readMessages would have set an error
	last, _ := messages[len(messages)-1].(*ordered.Object)
	if text, _ := member(last, "content").(string); member(last, "role") != "assistant" || text == "" {
		o.fail(CodeInvalidValue, `%q needs a last message with the role "assistant" and a non-empty content`, f.Name)
	}
	if o.boolean("add_generation_prompt") {
		o.fail(CodeInvalidValue, `%q and "add_generation_prompt" cannot both be true`, f.Name)
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

// readMessages reads a chat's messages. Several text parts of a content are joined with newlines,
// because templates expect strings.
func (r *Request) readMessages(o *object, f *Field) {
	raw, ok := o.get(f.Name, array)
	if !ok {
		o.fail(CodeMissing, `"messages" is missing`)
	}
	list, _ := o.parse(f.Name, raw).([]ordered.Value)
	if len(list) == 0 {
		o.fail(CodeInvalidValue, `"messages" is empty`)
	}
	for i, v := range list {
		m, ok := v.(*ordered.Object)
		if !ok {
			o.fail(CodeInvalidType, `"messages[%d]" must be an object, not %s`, i, typeOfValue(v))
			return
		}
		o.message(i, m)
	}
	r.chat.Set(f.Name, list)
}

// roles are OpenAI's roles. Other roles are errors, because templates silently omit messages with
// unknown roles.
var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

func (o *object) message(i int, m *ordered.Object) {
	v, ok := m.Get("role")
	role, isText := v.(string)
	switch {
	case !ok:
		o.fail(CodeMissing, `"messages[%d].role" is missing`, i)
	case !isText:
		o.fail(CodeInvalidType, `"messages[%d].role" must be a string, not %s`, i, typeOfValue(v))
	case !slices.Contains(roles, role):
		o.fail(CodeInvalidValue, `"messages[%d].role" must be one of %s, not %.100q`, i, strings.Join(roles, ", "), role)
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
		o.fail(CodeInvalidType, `"messages[%d].content" must be a string or an array, not %s`, i, typeOfValue(content))
	}
	for _, name := range []string{"images", "videos"} { // the templates of text models ignore these
		if member(m, name) != nil {
			o.fail(CodeUnsupported, `"messages[%d].%s" is not supported: only text can be used`, i, name)
		}
	}
	o.toolCalls(i, m)
}

func (o *object) missingContent(i int, isNull bool) {
	if isNull {
		o.fail(CodeInvalidType, `"messages[%d].content" must be a string or an array, not null`, i)
	} else {
		o.fail(CodeMissing, `"messages[%d].content" is missing`, i)
	}
}

func (o *object) joinParts(i int, parts []ordered.Value) string {
	texts := make([]string, len(parts))
	for k, v := range parts {
		part, ok := v.(*ordered.Object)
		if !ok {
			o.fail(CodeInvalidType, `"messages[%d].content[%d]" must be an object, not %s`, i, k, typeOfValue(v))
			return ""
		}
		if name, _ := member(part, "type").(string); name != "text" {
			o.fail(CodeUnsupported, `"messages[%d].content[%d].type" must be "text", not %.100q: only text can be used`, i, k, name)
			return ""
		}
		s := member(part, "text")
		if texts[k], ok = s.(string); !ok {
			o.fail(CodeInvalidType, `"messages[%d].content[%d].text" must be a string, not %s`, i, k, typeOfValue(s))
			return ""
		}
	}
	return strings.Join(texts, "\n")
}

// member returns the value of a key; nil if there is no object or no such key.
func member(o *ordered.Object, key string) ordered.Value {
	if o == nil {
		return nil
	}
	v, _ := o.Get(key)
	return v
}

func typeOfValue(v ordered.Value) jsonType {
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
