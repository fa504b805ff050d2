package chat

import (
	"errors"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// continueKey is the variable of Hugging Face transformers for an answer that continues the chat's
// last message.
const continueKey = "continue_final_message"

// endMark marks the end of the message to continue. Templates may trim a message, so the text alone
// would not show where the message ends in the prompt. The mark contains private-use characters of
// Unicode, which do not occur in messages.
const endMark = "\uE000ingot-continues\uE001"

// continueLast prepares a chat whose variable continueKey is true. It appends endMark to the last
// message, and sets add_generation_prompt to false. It returns false if it changed nothing.
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

func cutContinued(prompt string) (string, error) {
	at := strings.LastIndex(prompt, endMark)
	if at < 0 {
		return "", errors.New("the prompt does not have the last message, so the answer cannot continue it: set " + continueKey + " to false")
	}
	return prompt[:at], nil
}
