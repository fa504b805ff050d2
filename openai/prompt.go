package openai

import (
	"encoding/json"
	"slices"

	"github.com/ingot-run/ingot/internal/ordered"
)

const maxPrompts = 2048

// The fields that encode the texts of control tokens like other text: everywhere, or in parts of a
// prompt.
const (
	noSpecial     = "no_special_in_content"
	literalRanges = "literal_ranges"
)

// prompt is one prompt of a completion: token ids, or text if ids is nil.
type prompt struct {
	text string
	ids  []int32
}

// readPrompts reads the prompts of a completion. The field is a string, an array of token ids, an
// array of strings, or an array of arrays of token ids.
func (r *Request) readPrompts(o *object, f *Field) {
	raw, ok := o.get(f.Name, text, array)
	if !ok {
		o.fail(CodeMissing, `"prompt" is missing`)
		return
	}
	if typeOf(raw) == text {
		s, _ := o.text(f.Name)
		r.prompts = []prompt{{text: s}}
		return
	}
	first := null
	for e := range ordered.Items(raw) {
		first = typeOf(e)
		break
	}
	if first == number {
		r.prompts = []prompt{{ids: o.ids(f.Name, raw)}}
		return
	}
	list := slices.Collect(ordered.Items(raw))
	switch {
	case len(list) == 0:
		o.fail(CodeInvalidValue, `"prompt" is an empty array`)
	case len(list) > maxPrompts:
		o.fail(CodeInvalidValue, `"prompt" has %d prompts, more than %d`, len(list), maxPrompts)
		return
	}
	r.prompts = make([]prompt, len(list))
	for i, e := range list {
		switch t := typeOf(e); {
		case t != first || t != text && t != array:
			o.fail(CodeInvalidType, `"prompt" must be a string, or an array of strings, of token ids or of arrays of token ids`)
		case t == array:
			r.prompts[i].ids = o.ids(f.Name, e)
		default:
			json.Unmarshal(e, &r.prompts[i].text) //nolint:errcheck // the request's body is valid JSON, so e is a string
		}
	}
}

// readLiteral reads the parts of a prompt in which the texts of control tokens are ordinary text:
// [from, to] in bytes of UTF-8.
func (r *Request) readLiteral(o *object, f *Field) {
	raw, ok := o.get(f.Name, array)
	if !ok {
		return
	}
	var parts [][2]int
	end, length := 0, 0
	if len(r.prompts) == 1 {
		length = len(r.prompts[0].text)
	}
	for e := range ordered.Items(raw) {
		var pair []int
		if err := json.Unmarshal(e, &pair); err != nil || len(pair) != 2 || pair[0] < end || pair[1] < pair[0] || pair[1] > length {
			o.fail(CodeInvalidValue, `"%s[%d]" must be two offsets in the bytes of the only prompt, %d to %d, in ascending order, not %.100s`,
				o.named(f.Name), len(parts), end, length, e)
			return
		}
		end = pair[1]
		parts = append(parts, [2]int(pair))
	}
	r.settings.LiteralParts = parts
}
