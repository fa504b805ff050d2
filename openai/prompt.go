package openai

import (
	"encoding/json"
	"slices"

	"github.com/ingot-run/ingot/internal/ordered"
)

const maxPrompts = 2048

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
	if len(list) == 0 {
		o.fail(CodeInvalidValue, `"prompt" is an empty array`)
	}
	if len(list) > maxPrompts {
		o.fail(CodeInvalidValue, `"prompt" has %d prompts, more than %d`, len(list), maxPrompts)
		return
	}
	r.prompts = make([]prompt, len(list))
	for i, e := range list {
		if t := typeOf(e); t != first || t != text && t != array {
			o.fail(CodeInvalidType, `"prompt" must be a string, or an array of strings, of token ids or of arrays of token ids`)
			return
		}
		if first == array {
			r.prompts[i].ids = o.ids(f.Name, e)
		} else if err := json.Unmarshal(e, &r.prompts[i].text); err != nil {
			o.fail(CodeInvalidJSON, `"prompt[%d]": %v`, i, err)
		}
	}
}
