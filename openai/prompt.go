package openai

import (
	"encoding/json"
	"slices"

	"github.com/ingot-run/ingot/internal/ordered"
)

// maxPrompts is the maximum number of prompts in one completion request.
const maxPrompts = 2048

// prompt is one prompt of a completion: token ids, or text if ids is nil.
type prompt struct {
	text string
	ids  []int32
}

// prompts returns the prompts of a completion. The field is a string, an array of token ids, an array of strings, or an array of arrays
// of token ids.
func (o *object) prompts() []prompt {
	raw, ok := o.get("prompt", text, array)
	if !ok {
		o.fail(CodeMissing, `"prompt" is missing`)
		return nil
	}
	if kindOf(raw) == text {
		s, _ := o.text("prompt")
		return []prompt{{text: s}}
	}
	first := null
	for e := range ordered.Items(raw) {
		if first = kindOf(e); first == number {
			return []prompt{{ids: o.ids("prompt", raw)}}
		}
		break
	}
	list := slices.Collect(ordered.Items(raw))
	if len(list) == 0 {
		o.fail(CodeInvalidValue, `"prompt" is an empty array`)
		return nil
	}
	if len(list) > maxPrompts {
		o.fail(CodeInvalidValue, `"prompt" has %d prompts, more than %d`, len(list), maxPrompts)
		return nil
	}
	prompts := make([]prompt, len(list))
	for i, e := range list {
		k := kindOf(e)
		if k != first || (k != text && k != array) {
			o.fail(CodeInvalidType, `"prompt" must be a string, or an array of strings, of token ids or of arrays of token ids`)
			return nil
		}
		if k == array {
			prompts[i].ids = o.ids("prompt", e)
			continue
		}
		if err := json.Unmarshal(e, &prompts[i].text); err != nil {
			o.fail(CodeInvalidJSON, `"prompt[%d]": %v`, i, err)
			return nil
		}
	}
	return prompts
}
