package openai

import (
	"encoding/json"
	"slices"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"
)

// anyObject is the schema of "json_object".
const anyObject = `{"type":"object"}`

// maxChoices is the maximum number of texts among which an answer is chosen.
const maxChoices = 100_000

// constrain sets the form of the answer. It is an error if another field has set one.
func (r *Request) constrain(o *object, name string, form generation.Constraint) {
	path := o.named(name)
	if r.settings.Constraint != nil {
		o.fail(CodeInvalidValue, "%q and %q both give the form of the answer: give one", r.formField, path)
	}
	r.formField, r.settings.Constraint = path, &form
}

// finishConstraint checks that the form of the answer fits the other fields.
func (r *Request) finishConstraint(o *object) {
	if r.settings.Constraint != nil && r.settings.IgnoreEOS {
		o.fail(CodeInvalidValue, `"ignore_eos" and %q cannot be combined: an answer in a given form ends when it is complete`, r.formField)
	}
}

// FormParam returns the field that gives the form of the answer or, if there is none, of the calls;
// empty if the answer is free.
func (r *Request) FormParam() string {
	if r.formField == "" && r.settings.Tools != nil {
		return "tools"
	}
	return r.formField
}

// CheckConstraint returns an *Error if the answer, or the arguments of a strict tool, must have a
// form that check refuses. The error names the field of the form. It is nil if the answer is free.
func (r *Request) CheckConstraint(check func(*generation.Constraint) error) error {
	if err := r.checkTools(check); err != nil {
		return err
	}
	if r.settings.Constraint == nil {
		return nil
	}
	if err := check(r.settings.Constraint); err != nil {
		return errorf(CodeInvalidValue, "%q cannot be kept: %v", r.formField, err)
	}
	return nil
}

// Constraint returns the form that the answer must have; nil for any text. The caller must not
// change it.
func (r *Request) Constraint() *generation.Constraint { return r.settings.Constraint }

// ConstraintField returns a field of a request, and the value with which it asks for an answer of
// the given form.
func ConstraintField(c generation.Constraint) (*Field, json.RawMessage) {
	var value any
	name := "structured_outputs"
	switch {
	case c.Schema != "":
		type schema struct {
			Name   string          `json:"name"`
			Strict bool            `json:"strict"`
			Schema json.RawMessage `json:"schema"`
		}
		name, value = "response_format", struct {
			Type   string `json:"type"`
			Schema schema `json:"json_schema"`
		}{"json_schema", schema{"answer", true, json.RawMessage(c.Schema)}}
	case c.Regex != "":
		value = map[string]string{"regex": c.Regex}
	case c.Grammar != "":
		value = map[string]string{"grammar": c.Grammar}
	default:
		value = map[string][]string{"choice": c.Choices}
	}
	text, err := Marshal(value)
	if err != nil {
		panic(err) // a schema is valid JSON, and texts can always be encoded
	}
	return fields[slices.IndexFunc(fields, func(f *Field) bool { return f.Name == name })], text
}

// readResponseFormat reads OpenAI's field.
func (r *Request) readResponseFormat(o *object, name string) {
	raw, ok := o.get(name, dict)
	if !ok {
		return
	}
	o.inside(raw, name+".", func(format *object) {
		format.only("type", "json_schema", "schema")
		kind, ok := format.text("type")
		switch {
		case !ok:
			format.fail(CodeMissing, "%q is missing", format.named("type"))
		case kind == "text":
		case kind == "json_object":
			if format.has("json_schema") {
				format.fail(CodeInvalidValue, `%q needs the type "json_schema", not %.100q`, format.named("json_schema"), kind)
			}
			if !r.readSchema(format, "schema") {
				r.constrain(format, "type", generation.Constraint{Schema: anyObject})
			}
		case kind == "json_schema":
			r.readNamedSchema(format)
		default:
			format.fail(CodeInvalidValue, `%q must be "text", "json_object" or "json_schema", not %.100q`, format.named("type"), kind)
		}
	})
}

// readNamedSchema reads the schema of a response_format. OpenAI has it in an object with its name,
// llama.cpp without one. Name, description and strict change nothing: every schema is kept in full
// or refused.
func (r *Request) readNamedSchema(format *object) {
	raw, ok := format.get("json_schema", dict)
	if !ok {
		if !r.readSchema(format, "schema") {
			format.fail(CodeMissing, "%q is missing", format.named("json_schema"))
		}
		return
	}
	format.inside(raw, format.named("json_schema")+".", func(named *object) {
		named.only("name", "description", "strict", "schema")
		named.text("name")
		named.text("description")
		named.boolean("strict")
		if !r.readSchema(named, "schema") {
			named.fail(CodeMissing, "%q is missing", named.named("schema"))
		}
	})
}

// readSchema constrains the answer to the schema in a field. It reports whether the field is
// present.
func (r *Request) readSchema(o *object, name string) bool {
	raw, ok := o.get(name, dict)
	if ok {
		r.constrain(o, name, generation.Constraint{Schema: string(raw)})
	}
	return ok
}

// readSchemaOrText reads a schema that is an object, or a text with one.
func (r *Request) readSchemaOrText(o *object, name string) {
	raw, ok := o.get(name, dict, text)
	if !ok {
		return
	}
	if typeOf(raw) == text {
		s, _ := o.text(name)
		if raw = json.RawMessage(s); !json.Valid(raw) || typeOf(raw) != dict {
			o.fail(CodeInvalidValue, "%q must be an object, or a text with an object as JSON", o.named(name))
		}
	}
	r.constrain(o, name, generation.Constraint{Schema: string(raw)})
}

// readFormat reads Ollama's field: "json", or a schema.
func (r *Request) readFormat(o *object, name string) {
	if raw, _ := o.get(name, text, dict); typeOf(raw) == dict {
		r.readSchema(o, name)
		return
	}
	switch s, _ := o.text(name); s {
	case "":
	case "json":
		r.constrain(o, name, generation.Constraint{Schema: anyObject})
	default:
		o.fail(CodeInvalidValue, `%q must be "json" or a schema, not %.100q`, o.named(name), s)
	}
}

func (r *Request) readChoices(o *object, name string) {
	raw, ok := o.get(name, array)
	if !ok {
		return
	}
	var choices []string
	for e := range ordered.Items(raw) {
		i := len(choices)
		var s string
		switch t := typeOf(e); {
		case t != text:
			o.fail(CodeInvalidType, `"%s[%d]" must be a string, not %s`, o.named(name), i, t)
		case i == maxChoices:
			o.fail(CodeInvalidValue, "%q has more than %d strings", o.named(name), maxChoices)
			return
		case ordered.HalfSurrogate(e) != -1:
			o.fail(CodeInvalidValue, `"%s[%d]" has half of a surrogate pair, which no answer can have: remove it`, o.named(name), i)
		default:
			json.Unmarshal(e, &s) //nolint:errcheck // the request's body is valid JSON, so e is a string
		}
		choices = append(choices, s)
	}
	if len(choices) == 0 {
		o.fail(CodeInvalidValue, "%q is an empty array", o.named(name))
	}
	r.constrain(o, name, generation.Constraint{Choices: choices})
}

func (r *Request) readRegex(o *object, name string) {
	if s := o.filled(name); s != "" {
		r.constrain(o, name, generation.Constraint{Regex: s})
	}
}

func (r *Request) readGrammar(o *object, name string) {
	if s := o.filled(name); s != "" {
		r.constrain(o, name, generation.Constraint{Grammar: s})
	}
}

// readOptionalGrammar reads llama.cpp's field, which may be empty.
func (r *Request) readOptionalGrammar(o *object, name string) {
	if s, _ := o.text(name); s != "" {
		r.readGrammar(o, name)
	}
}

// filled returns the text in a field; empty if the field is absent. It sets an error if the field
// is an empty text.
func (o *object) filled(name string) string {
	s, ok := o.text(name)
	if ok && s == "" {
		o.fail(CodeInvalidValue, "%q is empty", o.named(name))
	}
	return s
}

// readStructuredOutputs reads vLLM's field, an object with one of several forms.
func (r *Request) readStructuredOutputs(o *object, name string) {
	raw, ok := o.get(name, dict)
	if !ok {
		return
	}
	o.inside(raw, name+".", func(forms *object) {
		forms.only("json", "regex", "choice", "grammar", "json_object", "structural_tag", "whitespace_pattern",
			"disable_additional_properties", "disable_any_whitespace", "disable_fallback")
		r.readSchemaOrText(forms, "json")
		r.readRegex(forms, "regex")
		r.readChoices(forms, "choice")
		r.readGrammar(forms, "grammar")
		if forms.boolean("json_object") {
			r.constrain(forms, "json_object", generation.Constraint{Schema: anyObject})
		}
		for _, other := range []string{"structural_tag", "whitespace_pattern", "disable_additional_properties", "disable_any_whitespace"} {
			if forms.has(other) && compact(forms.fields[other]) != "false" {
				forms.fail(CodeUnsupported, "%q is not supported: give one of json, regex, choice, grammar and json_object", forms.named(other))
			}
		}
		if r.settings.Constraint == nil {
			forms.fail(CodeInvalidValue, "%q has no form: give one of json, regex, choice, grammar and json_object", name)
		}
	})
}

// byName makes a function that reads a field of the table from one that reads a field of any
// object.
func byName(read func(*Request, *object, string)) func(*Request, *object, *Field) {
	return func(r *Request, o *object, f *Field) { read(r, o, f.Name) }
}
