package openai

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"
)

// maxTools is the maximum number of tools. OpenAI allows 128.
const maxTools = 1024

func (r *Request) readTools(o *object, f *Field) {
	raw, ok := o.get(f.Name, array)
	if !ok {
		return
	}
	first := map[string]int{}
	for item := range ordered.Items(raw) {
		i := len(r.settings.Tools)
		path := fmt.Sprintf("%s[%d]", f.Name, i)
		if t := typeOf(item); t != dict {
			o.fail(CodeInvalidType, `%q must be an object, not %s`, path, t)
		}
		if i == maxTools {
			o.fail(CodeInvalidValue, "%q has more than %d tools", f.Name, maxTools)
			return
		}
		var tool generation.Tool
		o.inside(item, path+".", func(t *object) { tool = t.tool() })
		if j, ok := first[tool.Name]; ok {
			o.fail(CodeInvalidValue, `"%s.function.name" is %.100q, like that of "tools[%d]": give each tool a name of its own`, path, tool.Name, j)
		}
		first[tool.Name] = i
		r.settings.Tools = append(r.settings.Tools, tool)
	}
}

// tool reads a tool of OpenAI's API.
func (o *object) tool() (t generation.Tool) {
	o.only("type", "function")
	kind, ok := o.text("type")
	switch {
	case !ok:
		o.fail(CodeMissing, "%q is missing", o.named("type"))
	case kind != "function":
		o.fail(CodeUnsupported, `%q must be "function", not %.100q`, o.named("type"), kind)
	}
	raw, ok := o.get("function", dict)
	if !ok {
		o.fail(CodeMissing, "%q is missing", o.named("function"))
		return t
	}
	o.inside(raw, o.named("function")+".", func(f *object) {
		f.only("name", "description", "strict", "parameters")
		t.Name = f.toolName()
		t.Description, _ = f.text("description")
		t.Strict = f.boolean("strict")
		if parameters, ok := f.get("parameters", dict); ok {
			t.Parameters = string(parameters)
			f.inside(parameters, f.named("parameters")+".", func(schema *object) { schema.checkParameters() })
		}
	})
	return t
}

func (o *object) toolName() string {
	name, ok := o.text("name")
	if !ok {
		o.fail(CodeMissing, "%q is missing", o.named("name"))
		return ""
	}
	if err := generation.CheckToolName(name); err != nil {
		o.fail(CodeInvalidValue, "%q %v", o.named("name"), err)
	}
	return name
}

// checkParameters sets an error if the object is not a schema of objects. It checks the schema's
// first level only.
func (o *object) checkParameters() {
	if raw, ok := o.get("type", text, array); ok && typeOf(raw) == text {
		if kind, _ := o.text("type"); kind != "object" {
			o.fail(CodeInvalidValue, `%q must be "object", not %.100q: arguments are an object`, o.named("type"), kind)
		}
	}
	if raw, ok := o.get("properties", dict); ok {
		for key, schema := range ordered.Members(raw) {
			if t := typeOf(schema); t != dict && t != boolean {
				o.fail(CodeInvalidType, `"%s.%s" must be a schema (an object), not %s`, o.named("properties"), key, t)
			}
		}
	}
	if raw, ok := o.get("required", array); ok {
		for name := range ordered.Items(raw) {
			if t := typeOf(name); t != text {
				o.fail(CodeInvalidType, "%q must be an array of strings, and has %s", o.named("required"), t)
			}
		}
	}
}

// readToolChoice reads which tools may or must be called. "none" hides the tools from the model.
func (r *Request) readToolChoice(o *object, f *Field) {
	raw, ok := o.get(f.Name, text, dict)
	if !ok {
		return
	}
	choice := &r.settings.ToolChoice
	if typeOf(raw) == dict {
		o.inside(raw, f.Name+".", func(c *object) { r.readNamedChoice(c) })
	} else {
		mode, _ := o.text(f.Name)
		r.readToolMode(o, f.Name, mode, true)
	}
	for _, name := range choice.Names {
		if !slices.ContainsFunc(r.settings.Tools, func(t generation.Tool) bool { return t.Name == name }) {
			o.fail(CodeInvalidValue, `%q names the function %.100q, which is not in "tools"`, f.Name, name)
		}
	}
	if choice.Mode != generation.ToolsAuto && len(r.settings.Tools) == 0 {
		o.fail(CodeInvalidValue, `%q requires a call, but there are no "tools"`, f.Name)
	}
}

func (r *Request) readToolMode(o *object, name, mode string, none bool) {
	switch {
	case mode == "auto":
	case mode == "required":
		r.settings.ToolChoice.Mode = generation.ToolsRequired
	case mode == "none" && none:
		r.settings.Tools = nil
	default:
		o.fail(CodeInvalidValue, `%q must be "none", "auto", "required" or an object that names a function, not %.100q`, o.named(name), mode)
	}
}

// readNamedChoice reads a choice that is an object: of one function, or of several that are
// allowed.
func (r *Request) readNamedChoice(o *object) {
	choice := &r.settings.ToolChoice
	switch kind, _ := o.text("type"); kind {
	case "function":
		o.only("type", "function")
		choice.Mode = generation.ToolsNamed
		choice.Names = []string{o.chosenName()}
	case "allowed_tools":
		o.only("type", "allowed_tools")
		raw, ok := o.get("allowed_tools", dict)
		if !ok {
			o.fail(CodeMissing, "%q is missing", o.named("allowed_tools"))
		}
		o.inside(raw, o.named("allowed_tools")+".", func(a *object) { r.readAllowed(a) })
	default:
		o.fail(CodeInvalidValue, `%q must be "function" or "allowed_tools", not %.100q`, o.named("type"), kind)
	}
}

// chosenName returns the name in an object like {"type": "function", "function": {"name": "f"}}.
func (o *object) chosenName() (name string) {
	raw, ok := o.get("function", dict)
	if !ok {
		o.fail(CodeMissing, "%q is missing", o.named("function"))
		return ""
	}
	o.inside(raw, o.named("function")+".", func(f *object) {
		f.only("name")
		name = f.toolName()
	})
	return name
}

func (r *Request) readAllowed(o *object) {
	o.only("mode", "tools")
	mode, _ := o.text("mode")
	r.readToolMode(o, "mode", mode, false)
	raw, ok := o.get("tools", array)
	if !ok {
		o.fail(CodeMissing, "%q is missing", o.named("tools"))
		return
	}
	names := []string{}
	for item := range ordered.Items(raw) {
		path := fmt.Sprintf("%s[%d].", o.named("tools"), len(names))
		if t := typeOf(item); t != dict {
			o.fail(CodeInvalidType, "%q must be an object, not %s", path[:len(path)-1], t)
		}
		o.inside(item, path, func(t *object) {
			t.only("type", "function")
			names = append(names, t.chosenName())
		})
	}
	if len(names) == 0 {
		o.fail(CodeInvalidValue, "%q is empty", o.named("tools"))
	}
	r.settings.ToolChoice.Names = names
}

func (r *Request) readParallel(o *object, f *Field) {
	if o.has(f.Name) && !o.boolean(f.Name) {
		r.settings.ToolChoice.Single = true
	}
}

// toolCalls checks the calls of message i and parses their arguments. OpenAI's messages have these
// as JSON text, and templates expect objects.
func (o *object) toolCalls(i int, m *ordered.Object) {
	v := member(m, "tool_calls")
	if v == nil {
		return
	}
	calls, ok := v.([]ordered.Value)
	if !ok {
		o.fail(CodeInvalidType, `"messages[%d].tool_calls" must be an array, not %s`, i, typeOfValue(v))
	}
	for k, v := range calls {
		call, _ := v.(*ordered.Object)
		function, _ := member(call, "function").(*ordered.Object)
		if function == nil {
			o.fail(CodeInvalidType, `"messages[%d].tool_calls[%d].function" must be an object, not %s`, i, k, typeOfValue(member(call, "function")))
			return
		}
		if name := member(function, "name"); typeOfValue(name) != text {
			o.fail(CodeInvalidType, `"messages[%d].tool_calls[%d].function.name" must be a string, not %s`, i, k, typeOfValue(name))
		}
		switch arguments := member(function, "arguments").(type) {
		case *ordered.Object:
		case nil:
			function.Set("arguments", ordered.NewObject())
		case string:
			o.parseArguments(i, k, function, arguments)
		default:
			o.fail(CodeInvalidType, `"messages[%d].tool_calls[%d].function.arguments" must be a string with an object as JSON, not %s`, i, k, typeOfValue(arguments))
		}
	}
}

func (o *object) parseArguments(i, k int, function *ordered.Object, source string) {
	parsed := ordered.Value(ordered.NewObject()) // some clients send an empty text for no arguments
	if source != "" {
		var err error
		if parsed, err = ordered.ParseJSON([]byte(source)); err != nil {
			o.fail(CodeInvalidValue, `"messages[%d].tool_calls[%d].function.arguments" must be an object as JSON: %v`, i, k, err)
		}
	}
	if _, ok := parsed.(*ordered.Object); !ok {
		o.fail(CodeInvalidType, `"messages[%d].tool_calls[%d].function.arguments" must be an object as JSON, not %s`, i, k, typeOfValue(parsed))
	}
	function.Set("arguments", parsed)
}

// toolCall is a call in a message, or a part of one in a chunk.
type toolCall struct {
	Index    *int         `json:"index,omitempty"` // only in chunks
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

func newToolCalls(calls []generation.ToolCall) []toolCall {
	var out []toolCall
	for _, c := range calls {
		out = append(out, toolCall{ID: c.ID, Type: "function", Function: functionCall{c.Name, c.Arguments}})
	}
	return out
}

func newToolDeltas(deltas []generation.ToolCallDelta) []toolCall {
	var out []toolCall
	for _, d := range deltas {
		c := toolCall{Index: &d.Index, ID: d.ID, Function: functionCall{d.Name, d.Arguments}}
		if d.ID != "" {
			c.Type = "function"
		}
		out = append(out, c)
	}
	return out
}

func callsOf(list []toolCall) []generation.ToolCall {
	var calls []generation.ToolCall
	for _, c := range list {
		calls = append(calls, generation.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return calls
}

// checkTools returns an *Error if a strict tool has a schema that check refuses.
func (r *Request) checkTools(check func(*generation.Constraint) error) error {
	for i, t := range r.settings.Tools {
		if !t.Strict || t.Parameters == "" {
			continue
		}
		if err := check(&generation.Constraint{Schema: t.Parameters}); err != nil {
			return errorf(CodeInvalidValue, `"tools[%d].function.parameters" cannot be kept: %v`, i, err)
		}
	}
	return nil
}
