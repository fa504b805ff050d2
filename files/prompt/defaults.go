package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/openai"
)

// Kind is the type of a field's values.
type Kind int

// The kinds.
const (
	Number Kind = iota
	Integer
	Boolean
	String
	Strings
	Integers
	Object // given as JSON
)

// Setting is a request field for which a run can give all rows a default.
type Setting struct {
	Field string
	Kind  Kind
	Help  string
	Only  openai.Endpoint // the only endpoint with this field; empty if both have it
	same  []string        // other names of the setting: a row with any of them does not get the default
}

// Flag returns the name of the setting's flag without dashes at its start, such as "max-tokens".
func (s *Setting) Flag() string { return strings.ReplaceAll(s.Field, "_", "-") }

// Settings lists all fields that can have a default.
var Settings = []Setting{
	{Field: "max_tokens", Kind: Integer, Help: "maximum number of tokens of an answer", same: []string{"max_completion_tokens", "max_new_tokens", "n_predict"}},
	{Field: "temperature", Kind: Number, Help: "0 to 2; 0 always takes the most probable token"},
	{Field: "top_p", Kind: Number, Help: "sample from the most probable tokens whose probabilities add up to this, 0 to 1"},
	{Field: "top_k", Kind: Integer, Help: "sample from this number of the most probable tokens"},
	{Field: "min_p", Kind: Number, Help: "sample from tokens with at least this share of the most probable token's probability, 0 to 1"},
	{Field: "n", Kind: Integer, Help: "answers per row"},
	{Field: "seed", Kind: Integer, Help: "seed for sampling tokens, and for --sample"},
	{Field: "stop", Kind: Strings, Help: "end an answer before `TEXT`; can be repeated", same: []string{"stop_sequences"}},
	{Field: "stop_token_ids", Kind: Integers, Help: "end an answer at these tokens"},
	{Field: "min_tokens", Kind: Integer, Help: "minimum number of tokens of an answer"},
	{Field: "ignore_eos", Kind: Boolean, Help: "continue after the end-of-sequence token"},
	{Field: "presence_penalty", Kind: Number, Help: "-2 to 2"},
	{Field: "frequency_penalty", Kind: Number, Help: "-2 to 2"},
	{Field: "repetition_penalty", Kind: Number, Help: "1 for no penalty", same: []string{"repeat_penalty"}},
	{Field: "logit_bias", Kind: Object, Help: `such as {"50": -100}`},
	{Field: "logprobs", Kind: Boolean, Help: "add the log-probability of each token", Only: openai.Chat},
	{Field: "top_logprobs", Kind: Integer, Help: "add the log-probabilities of this number of most probable tokens, 0 to 20", Only: openai.Chat},
	{Field: "return_token_ids", Kind: Boolean, Help: "add token ids"},
	{Field: "reasoning_effort", Kind: String, Help: "such as low, for chat templates that read it", Only: openai.Chat},
	{Field: "enable_thinking", Kind: Boolean, Help: "for chat templates that read it", Only: openai.Chat},
	{Field: "continue_final_message", Kind: Boolean, Help: "continue the chat's last message, which is the assistant's", Only: openai.Chat},
}

// Default is a value for rows that do not set a field.
type Default struct {
	Setting *Setting
	Value   json.RawMessage
}

// CheckDefaults returns an error if a value is not valid in a request. The error names the flag.
func CheckDefaults(defaults []Default) error {
	for _, d := range defaults {
		fields := []table.Field{{Name: "messages", Value: json.RawMessage(`[{"role":"assistant","content":"a"}]`)}, {Name: d.Setting.Field, Value: d.Value}}
		if d.Setting.Field == "top_logprobs" {
			fields = append(fields, table.Field{Name: "logprobs", Value: json.RawMessage("true")})
		}
		if _, err := openai.ParseRequest(openai.Chat, joined(fields)); err != nil {
			return fmt.Errorf("--%s: %w", d.Setting.Flag(), err)
		}
	}
	return nil
}

// fill adds defaults for the fields that a body does not set.
func fill(body []table.Field, e openai.Endpoint, defaults []Default) []table.Field {
	for _, d := range defaults {
		if d.Setting.Only != "" && d.Setting.Only != e || given(body, d.Setting) {
			continue
		}
		body = append(body, table.Field{Name: d.Setting.Field, Value: d.Value})
	}
	return body
}

// given reports whether a body sets a field, under any of its names.
func given(body []table.Field, s *Setting) bool {
	for _, f := range body {
		if isNull(f.Value) {
			continue
		}
		if f.Name == s.Field || slices.Contains(s.same, f.Name) {
			return true
		}
		if f.Name == "chat_template_kwargs" { // may also have settings of the template
			inner, err := table.Fields(f.Value)
			if err == nil && value(inner, s.Field) != nil {
				return true
			}
		}
	}
	return false
}

func isNull(v json.RawMessage) bool { return len(v) == 0 || string(v) == "null" }

// value returns the value of the last field with this name that is not null; nil if there is none.
func value(fields []table.Field, name string) json.RawMessage {
	for i := len(fields) - 1; i >= 0; i-- {
		if fields[i].Name == name {
			if isNull(fields[i].Value) {
				return nil
			}
			return fields[i].Value
		}
	}
	return nil
}

// joined returns a JSON object with the given fields.
func joined(fields []table.Field) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(marshal(f.Name))
		b.WriteByte(':')
		b.Write(f.Value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// marshal encodes a value for which encoding cannot fail.
func marshal(v any) json.RawMessage {
	text, err := openai.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// Parse returns the JSON of a flag's value.
func (s *Setting) Parse(text string) (json.RawMessage, error) {
	var v any
	var err error
	switch s.Kind {
	case Number:
		v, err = strconv.ParseFloat(text, 64)
	case Integer:
		v, err = strconv.ParseInt(text, 10, 64)
	case Boolean:
		v, err = strconv.ParseBool(text)
	case String:
		v = text
	case Strings:
		v = []string{text}
	case Integers:
		var ids []int64
		for id := range strings.SplitSeq(text, ",") {
			var n int64
			if n, err = strconv.ParseInt(strings.TrimSpace(id), 10, 64); err != nil {
				break
			}
			ids = append(ids, n)
		}
		v = ids
	case Object:
		if !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("%q is not JSON", text)
		}
		return json.RawMessage(text), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not %s", text, kindNames[s.Kind])
	}
	return openai.Marshal(v)
}

var kindNames = map[Kind]string{Number: "a number", Integer: "a whole number", Boolean: "true or false", Integers: "a list of token ids, such as 2,7"}
