package prompt

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/openai"
)

// Shape is the name of a rule that makes a request from the columns of a record.
type Shape string

// The shapes.
const (
	Auto       Shape = "auto"
	Requests   Shape = "requests"
	Messages   Shape = "messages"
	Prompt     Shape = "prompt"
	Completion Shape = "completion"
	ShareGPT   Shape = "sharegpt"
	Alpaca     Shape = "alpaca"
)

type shape struct {
	name Shape
	help string
	// claims reports whether a record with these fields has the shape. nil if the shape is never
	// guessed.
	claims func(fields []table.Field) bool
	// body makes a request from a record's fields: the endpoint, and the fields of the body. nil
	// for Requests.
	body func(fields []table.Field) (openai.Endpoint, []table.Field, error)
}

// shapes lists all shapes. If the records are not requests, Auto tries the first records in order,
// and selects the first shape that claims one of them.
var shapes = []shape{
	{Requests, `JSON objects that are requests: OpenAI Batch lines, or bodies with "messages" or "prompt"`, nil, nil},
	{Messages, `column "messages", a list of role and content, without a last answer`, func(f []table.Field) bool { return value(f, "messages") != nil }, messagesBody},
	{ShareGPT, `column "conversations", a list of from and value, without a last answer`, func(f []table.Field) bool { return value(f, "conversations") != nil }, shareGPTBody},
	{Prompt, `column "prompt": a text, sent as a user's message, or a list of messages`,
		func(f []table.Field) bool { return value(f, "prompt") != nil }, promptBody},
	{Alpaca, `columns "instruction" and "input"`, func(f []table.Field) bool {
		return value(f, "instruction") != nil && (has(f, "input") || has(f, "output"))
	}, alpacaBody},
	{Completion, `column "prompt", a line of a text file, or --prompt, as the beginning of a text that the model continues; no chat`, nil, completionBody},
}

// Shapes iterates over all shapes except Auto, with a line of help for each.
func Shapes() iter.Seq2[Shape, string] {
	return func(yield func(Shape, string) bool) {
		for _, s := range shapes {
			if !yield(s.name, s.help) {
				return
			}
		}
	}
}

// ParseShape returns the shape with the name s. An error lists the known names.
func ParseShape(s string) (Shape, error) {
	if Shape(s) == Auto || lookup(Shape(s)) != nil {
		return Shape(s), nil
	}
	names := []string{string(Auto)}
	for name := range Shapes() {
		names = append(names, string(name))
	}
	return "", fmt.Errorf("shape %q is not known: use %s", s, english.WordSeries(names, "or"))
}

func lookup(s Shape) *shape {
	for i := range shapes {
		if shapes[i].name == s {
			return &shapes[i]
		}
	}
	return nil
}

func has(fields []table.Field, name string) bool {
	return slices.ContainsFunc(fields, func(f table.Field) bool { return f.Name == name })
}

// guess returns the shape that claims a record, or nil.
func guess(fields []table.Field) *shape {
	for i := range shapes {
		if shapes[i].claims != nil && shapes[i].claims(fields) {
			return &shapes[i]
		}
	}
	return nil
}

func isRequest(fields []table.Field) bool {
	prompt := value(fields, "prompt")
	return value(fields, "body") != nil || value(fields, "messages") != nil || prompt != nil && !isMessages(prompt) ||
		value(fields, "error") != nil
}

func isMessages(v json.RawMessage) bool {
	return len(v) > 0 && v[0] == '[' && strings.HasPrefix(strings.TrimLeft(string(v[1:min(len(v), 64)]), " \t\r\n"), "{")
}

func text(fields []table.Field, name string) (string, error) {
	v := value(fields, name)
	if v == nil {
		return "", fmt.Errorf("column %q has no value", name)
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", fmt.Errorf("column %q is not text", name)
	}
	return s, nil
}

func chat(messages ...chatMessage) (openai.Endpoint, []table.Field, error) {
	return openai.Chat, []table.Field{{Name: "messages", Value: marshal(messages)}}, nil
}

// elements returns the list in a column. In formats without lists, the column's text is JSON.
func elements(fields []table.Field, name string) ([]json.RawMessage, error) {
	v := value(fields, name)
	if v == nil {
		return nil, fmt.Errorf("column %q has no value", name)
	}
	if s, err := text(fields, name); err == nil {
		v = json.RawMessage(s)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(v, &list); err != nil {
		return nil, fmt.Errorf("column %q is not a list", name)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("column %q has an empty list", name)
	}
	return list, nil
}

func messagesBody(fields []table.Field) (openai.Endpoint, []table.Field, error) {
	list, err := elements(fields, "messages")
	return openai.Chat, []table.Field{{Name: "messages", Value: marshal(list)}}, err
}

// promptBody makes a chat of a row's prompt. The prompt can be inside "body", as in lines of
// OpenAI's Batch API.
func promptBody(fields []table.Field) (openai.Endpoint, []table.Field, error) {
	fields = insideBody(fields)
	if isMessages(value(fields, "prompt")) {
		list, err := elements(fields, "prompt")
		return openai.Chat, []table.Field{{Name: "messages", Value: marshal(list)}}, err
	}
	s, err := text(fields, "prompt")
	if err != nil {
		return "", nil, err
	}
	return chat(chatMessage{Role: "user", Content: s})
}

// insideBody returns the fields in "body" if the prompt is there, otherwise the fields themselves.
func insideBody(fields []table.Field) []table.Field {
	if body := value(fields, "body"); body != nil && body[0] == '{' && value(fields, "prompt") == nil {
		if inner, err := table.Fields(body); err == nil {
			return inner
		}
	}
	return fields
}

// settingsIn returns the fields of a JSON object that are settings of a chat, such as max_tokens.
func settingsIn(fields []table.Field) (settings []table.Field) {
	for _, f := range insideBody(fields) {
		known := slices.ContainsFunc(Settings, func(s *openai.Field) bool { return s.Named(f.Name) && (s.Only == "" || s.Only == openai.Chat) })
		if known && !isNull(f.Value) {
			settings = append(settings, f)
		}
	}
	return settings
}

func completionBody(fields []table.Field) (openai.Endpoint, []table.Field, error) {
	column := "prompt"
	if len(fields) == 1 && fields[0].Name == table.TextColumn { // a line of a text file
		column = table.TextColumn
	}
	s, err := text(fields, column)
	return openai.Completions, []table.Field{{Name: "prompt", Value: marshal(s)}}, err
}

func alpacaBody(fields []table.Field) (openai.Endpoint, []table.Field, error) {
	s, err := text(fields, "instruction")
	if err != nil {
		return "", nil, err
	}
	if value(fields, "input") != nil {
		input, err := text(fields, "input")
		if err != nil {
			return "", nil, err
		}
		if strings.TrimSpace(input) != "" {
			s += "\n\n" + input
		}
	}
	return chat(chatMessage{Role: "user", Content: s})
}

var speakers = map[string]string{
	"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant", "model": "assistant",
	"system": "system", "tool": "tool", "observation": "tool",
}

func shareGPTBody(fields []table.Field) (openai.Endpoint, []table.Field, error) {
	list, err := elements(fields, "conversations")
	if err != nil {
		return "", nil, err
	}
	messages := make([]chatMessage, len(list))
	for i, raw := range list {
		var turn struct{ From, Value *string }
		if err := json.Unmarshal(raw, &turn); err != nil || turn.From == nil || turn.Value == nil {
			return "", nil, fmt.Errorf(`column "conversations": element %d has no texts "from" and "value"`, i+1)
		}
		role, ok := speakers[strings.ToLower(*turn.From)]
		if !ok {
			return "", nil, fmt.Errorf(`column "conversations": element %d is from %q, which is not a known role`, i+1, *turn.From)
		}
		messages[i] = chatMessage{Role: role, Content: *turn.Value}
	}
	return chat(messages...)
}

// withoutAnswer removes the assistant's messages at the end of a chat, which are a data set's
// answers.
func withoutAnswer(messages json.RawMessage) (json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(messages, &list); err != nil {
		return nil, err
	}
	n := len(list)
	for n > 0 && roleOf(list[n-1]) == "assistant" {
		n--
	}
	if n == 0 {
		return nil, errors.New("the chat has no message with the role user")
	}
	if n == len(list) {
		return messages, nil
	}
	return marshal(list[:n]), nil
}

func roleOf(message json.RawMessage) string {
	var m struct{ Role string }
	if json.Unmarshal(message, &m) != nil {
		return ""
	}
	return m.Role
}

// withSystem adds a system message at the start of a chat that has none.
func withSystem(messages json.RawMessage, system string) (json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(messages, &list); err != nil {
		return nil, errors.New(`"messages" is not a list`)
	}
	if len(list) > 0 && (roleOf(list[0]) == "system" || roleOf(list[0]) == "developer") {
		return messages, nil
	}
	return marshal(append([]json.RawMessage{marshal(chatMessage{Role: "system", Content: system})}, list...)), nil
}
