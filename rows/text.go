package rows

import "github.com/ingot-run/ingot/openai"

// parseText returns a chat with the line as the user's message.
func parseText(line []byte) (openai.InputLine, error) {
	return openai.InputLine{Endpoint: openai.Chat, Body: openai.UserMessage(string(line))}, nil
}
