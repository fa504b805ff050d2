package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/ordered"
	"github.com/ingot-run/ingot/openai"
)

// Options describe how records become requests.
type Options struct {
	Shape    Shape        // Auto if empty
	Template *Template    // makes the messages of each chat, or the text of a Completion; nil if the shape does this
	System   *Template    // makes a system message for chats that have none; nil for no system message
	Defaults []Default    // in the order of Settings
	Notice   func(string) // called at most once, with a description of the shape that was guessed; may be nil
	Warn     func(string) // called at most once, with the first record that is not text in the file's encoding; may be nil
}

// AsIs reports whether lines that are requests are passed on unchanged.
func (o Options) AsIs() bool {
	return o.Template == nil && o.System == nil && len(o.Defaults) == 0 && (o.Shape == Auto || o.Shape == Requests)
}

type maker struct {
	o     Options
	shape *shape      // nil for text, and if a template makes the messages
	raw   bool        // records are requests, which get at most a system message and defaults
	plain bool        // records are lines of a text file; each is a user's message
	keep  bool        // a last message of the assistant is kept, so that the answer continues it
	names *rows.Names // custom_ids of earlier records

	asGiven bool // the options say whether texts of control tokens are ordinary text
}

// newMaker decides how records become requests. lines is set if the input consists of lines.
// columns are the columns of the input, or nil if each record has its own. sample has the first
// records. notice describes the shape that was guessed, or is empty.
func newMaker(o Options, lines bool, columns []table.Column, sample []table.Record) (m *maker, notice string, err error) {
	m = &maker{o: o, names: rows.NewNames()}
	for _, d := range o.Defaults {
		m.asGiven = m.asGiven || d.Setting.Name == literalField
		m.keep = m.keep || d.Setting.Name == "continue_final_message" && string(d.Value) == "true"
	}
	known := columnNames(columns, sample)
	for _, t := range []*Template{o.System, o.Template} {
		if t == nil || columns == nil && len(sample) == 0 {
			continue
		}
		if err := t.Check(known); err != nil {
			return nil, "", err
		}
	}
	if name := o.braced(known); name != "" && o.constant() {
		return nil, "", fmt.Errorf("the template names no column, since {%s} is plain text: write %s", name, placeholder(name))
	}
	if o.Template != nil {
		return m, "", nil
	}
	if m.shape = lookup(o.Shape); m.shape != nil {
		m.raw = m.shape.name == Requests
		return m, "", nil
	}
	if lines && len(columns) == 1 && columns[0].Name == table.TextColumn {
		m.plain = true
		return m, "", nil
	}
	if len(sample) == 0 { // there are no records, or only lines that cannot be read
		m.raw = true
		return m, "", nil
	}
	if columns == nil {
		for _, r := range sample {
			if isRequest(r.Fields) || len(r.Fields) == 0 {
				m.raw = true
				return m, "", nil
			}
		}
	}
	for _, r := range sample {
		if m.shape = guess(r.Fields); m.shape != nil {
			return m, fmt.Sprintf("rows have the shape %s (%s); --shape or --prompt overrides this", m.shape.name, m.shape.help), nil
		}
	}
	return nil, "", &UseError{known}
}

func columnNames(columns []table.Column, sample []table.Record) []string {
	if columns != nil {
		return table.Names(columns)
	}
	var list []string
	for _, r := range sample {
		for _, f := range r.Fields {
			if !slices.Contains(list, f.Name) {
				list = append(list, f.Name)
			}
		}
	}
	return list
}

func (m *maker) asIs() bool {
	return (m.raw || m.plain) && m.o.System == nil && len(m.o.Defaults) == 0
}

// line returns the request line of a record, without a line end. It may share the memory of the
// record.
func (m *maker) line(r table.Record) ([]byte, error) {
	if r.Line != nil && m.asIs() {
		return r.Line, nil
	}
	if m.raw {
		return m.request(r)
	}
	for _, f := range r.Fields {
		if ordered.HalfSurrogate(f.Value) != -1 { // the model would read U+FFFD
			return nil, fmt.Errorf("column %q has half of a surrogate pair, which is no text: remove it", f.Name)
		}
	}
	endpoint, body, err := m.body(r)
	if err != nil {
		return nil, err
	}
	line := []table.Field{{Name: "body", Value: joined(fill(body, endpoint, m.o.Defaults, r.Number))}}
	if id := m.id(r); id != "" {
		line = slices.Insert(line, 0, table.Field{Name: "custom_id", Value: marshal(id)})
	}
	return joined(line), nil
}

func (m *maker) body(r table.Record) (endpoint openai.Endpoint, body []table.Field, err error) {
	switch {
	case m.o.Template != nil:
		var messages []chatMessage
		if messages, err = m.o.Template.render(r); err != nil {
			return "", nil, err
		}
		if m.o.Shape == Completion {
			return openai.Completions, m.completion(messages[0]), nil
		}
		endpoint, body, err = chat(messages...)
		if messages[len(messages)-1].Role == "assistant" {
			body = append(body, table.Field{Name: "continue_final_message", Value: json.RawMessage("true")})
		}
	case m.plain:
		var s string
		if s, err = text(r.Fields, table.TextColumn); err == nil {
			endpoint, body, err = chat(chatMessage{Role: "user", Content: s})
		}
	default:
		endpoint, body, err = m.shape.body(r.Fields)
		if err == nil && m.shape.name == Prompt && r.Line != nil { // an object of a JSONL file, rather than a record of a table
			body = append(body, settingsIn(r.Fields)...)
		}
		if err == nil && endpoint == openai.Chat && !m.keep {
			body[0].Value, err = withoutAnswer(body[0].Value)
		}
	}
	if err == nil {
		err = m.addSystem(r, endpoint, body)
	}
	if err == nil && endpoint == openai.Chat && !m.plain {
		body = m.literalChat(body)
	}
	return endpoint, body, err
}

func (m *maker) addSystem(r table.Record, endpoint openai.Endpoint, body []table.Field) error {
	if m.o.System == nil {
		return nil
	}
	if endpoint != openai.Chat {
		return errors.New("a completion has no system message: leave out --system")
	}
	system, err := m.o.System.render(r)
	if err != nil {
		return err
	}
	for i := range body {
		if body[i].Name == "messages" {
			body[i].Value, err = withSystem(body[i].Value, system[0].Content)
		}
	}
	return err
}

func (m *maker) request(r table.Record) ([]byte, error) {
	line := r.Fields
	checked, err := openai.ParseInputLine(joined(line))
	if err != nil { // reading the line reports the error as the row's error
		return oneLine(joined(line)), nil //nolint:nilerr // reading the line reports the error
	}
	body, inner := line, value(line, "body")
	if inner != nil {
		if body, err = table.Fields(inner); err != nil {
			return nil, err
		}
	}
	body = slices.Clone(body)
	if err := m.addSystem(r, checked.Endpoint, body); err != nil {
		return nil, err
	}
	body = fill(body, checked.Endpoint, m.o.Defaults, r.Number)
	if inner == nil {
		return oneLine(joined(body)), nil
	}
	line = slices.Clone(line)
	for i := range line {
		if line[i].Name == "body" {
			line[i].Value = joined(body)
		}
	}
	return oneLine(joined(line)), nil
}

// oneLine removes line ends between the tokens of a JSON text.
func oneLine(text []byte) []byte {
	if !bytes.ContainsAny(text, "\r\n") {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

// id returns the custom_id of a record: the text or number in its field custom_id or id. It returns
// an empty string if neither field has a usable value, or if an earlier record has the same
// custom_id.
func (m *maker) id(r table.Record) string {
	for _, column := range []string{"custom_id", "id"} {
		v := value(r.Fields, column)
		var id string
		if v == nil || strings.ContainsRune("{[tf", rune(v[0])) {
			continue
		}
		if id = string(v); v[0] == '"' && json.Unmarshal(v, &id) != nil || id == "" || len(id) > openai.MaxCustomID {
			continue
		}
		if !m.names.Take(id) {
			break
		}
		return id
	}
	m.names.MakeUp(r.Number) // as the reader of the lines does, so that no later record has this name
	return ""
}

// failed returns a line that becomes an error row with the message of err.
func failed(err error) []byte {
	return joined([]table.Field{{Name: "error", Value: marshal(openai.Error{Code: openai.CodeInvalidRecord, Message: err.Error()})}})
}
