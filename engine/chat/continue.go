package chat

import (
	"errors"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/ordered"
)

// continueKey is the variable of a chat whose last message is to be continued, as in Hugging Face transformers.
const continueKey = "continue_final_message"

// endMark marks the end of the content that is continued. Templates may trim what surrounds a content, so the text alone would not show
// where it ends. The characters are for private use, which no message has.
const endMark = "\uE000ingot-continues\uE001"

// continueLast marks the end of the last message, if it is to be continued.
func continueLast(vars *ordered.Object) bool {
	v, _ := vars.Get(continueKey)
	if on, _ := v.(bool); !on {
		return false
	}
	list, _ := vars.Get("messages")
	messages, ok := list.([]ordered.Value)
	if !ok || len(messages) == 0 {
		return false
	}
	last, ok := messages[len(messages)-1].(*ordered.Object)
	if !ok {
		return false
	}
	content, _ := last.Get("content")
	text, _ := content.(string)
	last = last.Clone()
	last.Set("content", text+endMark)
	messages = slices.Clone(messages)
	messages[len(messages)-1] = last
	vars.Set("messages", messages)
	vars.Set("add_generation_prompt", false)
	return true
}

// cutContinued removes what follows the content that is continued.
func cutContinued(prompt string) (string, error) {
	at := strings.LastIndex(prompt, endMark)
	if at < 0 {
		return "", errors.New("the template leaves out the last message, so that it cannot be continued")
	}
	return prompt[:at], nil
}
