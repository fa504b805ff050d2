package prompt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/openai"
)

// Settings lists all fields that can have a default.
var Settings = openai.Flags()

// Default is a value for rows that do not set a field. The value of seed is the seed of the run: it
// is mixed with the number of each row.
type Default struct {
	Setting *openai.Field
	Value   json.RawMessage
}

const seedField = "seed"

// of returns the value for the row with the given number.
func (d *Default) of(number int) json.RawMessage {
	if d.Setting.Name != seedField {
		return d.Value
	}
	return marshal(RowSeed(string(d.Value), number))
}

// RowSeed mixes the seed of a run, in decimal, with the number of a row. The result has 53 bits,
// which are exact in JSON readers that use float64.
func RowSeed(seed string, number int) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d", seed, number))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 11)
}

// ReadDefaults returns the defaults that flags set. values returns the value of each setting's
// flag. given reports whether a flag is given. The errors name the flag.
func ReadDefaults(values map[string]func() (json.RawMessage, error), given func(flag string) bool) ([]Default, error) {
	var list []Default
	for _, s := range Settings {
		if !given(s.Flag()) {
			continue
		}
		value, err := values[s.Name]()
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", s.Flag(), err)
		}
		list = append(list, Default{Setting: s, Value: value})
	}
	return list, CheckDefaults(list)
}

// CheckDefaults returns an error if a value is not valid in a request. The error names the flag.
func CheckDefaults(defaults []Default) error {
	for _, d := range defaults {
		fields := []table.Field{{Name: "messages", Value: json.RawMessage(`[{"role":"assistant","content":"a"}]`)}, {Name: d.Setting.Name, Value: d.Value}}
		if d.Setting.Name == "top_logprobs" {
			fields = append(fields, table.Field{Name: "logprobs", Value: json.RawMessage("true")})
		}
		if _, err := openai.ParseRequest(openai.Chat, joined(fields)); err != nil {
			return fmt.Errorf("--%s: %w", d.Setting.Flag(), err)
		}
	}
	return nil
}

// fill adds the defaults of fields that a body does not have. number is the number of the row.
func fill(body []table.Field, e openai.Endpoint, defaults []Default, number int) []table.Field {
	for _, d := range defaults {
		if d.Setting.Only != "" && d.Setting.Only != e || given(body, d.Setting) {
			continue
		}
		body = append(body, table.Field{Name: d.Setting.Name, Value: d.of(number)})
	}
	return body
}

func given(body []table.Field, s *openai.Field) bool {
	for _, f := range body {
		if isNull(f.Value) {
			continue
		}
		if s.Settles(f.Name) {
			return true
		}
		if f.Name == "chat_template_kwargs" { // may also have settings of the template
			inner, err := table.Fields(f.Value)
			if err == nil && value(inner, s.Name) != nil {
				return true
			}
		}
	}
	return false
}

// hasOwnForm reports whether a request line has another form of the answer than the one that is the
// default of rows. It is false if there is no such default.
func hasOwnForm(line []byte, defaults []Default) bool {
	for _, d := range defaults {
		if d.Setting.GivesForm() {
			field := joined([]table.Field{{Name: d.Setting.Name, Value: d.Value}})
			return !bytes.Contains(line, field[1:len(field)-1])
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
	text, _ := openai.Marshal(v)
	return text
}
