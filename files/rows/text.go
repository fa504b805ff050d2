package rows

import "github.com/ingot-run/ingot/openai"

// parseText returns a chat in which the line is the only message, from the user.
func parseText(line []byte) (openai.InputLine, error) {
	return openai.InputLine{Endpoint: openai.Chat, Body: openai.UserMessage(string(line))}, nil
}
