package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Fields says how the texts of answers become columns of a table. The zero Fields makes none.
type Fields struct {
	JSON bool // each property of an answer, which must be a JSON object, is a column

	// Schema is the schema of the answers as JSON text; empty for none. It gives columns their
	// order and kinds. Without JSON, an answer that is not JSON is a failed one.
	Schema string
	Groups *regexp.Regexp // each named group of its first match is a column; nil for none; not with JSON
}

// CodeUnparsed is the code of the failure of an answer whose text cannot become columns.
const CodeUnparsed = "unparsed_answer"

// Known returns the columns that the table has whatever the answers are. They lack the prefix.
func (f *Fields) Known() []table.Column {
	var columns []table.Column
	if f.JSON {
		columns = schemaColumns(f.Schema)
	} else if f.Groups != nil {
		for _, name := range f.Groups.SubexpNames() {
			if name != "" {
				columns = append(columns, table.Column{Name: name, Kind: table.String})
			}
		}
	}
	for i := range columns {
		columns[i].Name = f.column(columns[i].Name)
	}
	return columns
}

// column returns the name of the column of a property or a group. It differs from the names of the
// other generated columns.
func (f *Fields) column(name string) string {
	for slices.ContainsFunc(Generated, func(c table.Column) bool { return c.Name == name }) {
		name = "answer_" + name
	}
	return name
}

// columns returns the columns of the answers, without the prefix. With JSON, it reads all answers.
func (f *Fields) columns(all []*Answers) ([]table.Column, error) {
	known := f.Known()
	if !f.JSON {
		return known, nil
	}
	scan := table.NewScan(known)
	for _, a := range all {
		for _, e := range a.entries {
			raw, err := a.text(e)
			if err != nil {
				return nil, err
			}
			l, err := parseLine(raw)
			if err != nil {
				return nil, fmt.Errorf("read the answer to row %d in %s: %w", e.row, a.path, err)
			}
			for _, s := range samplesOf(l, "") {
				f.read(&s, false)
				if err := scan.Add(s.fields); err != nil {
					return nil, fmt.Errorf("make columns of the properties of answers: %w: leave out --columns-from json", err)
				}
			}
		}
	}
	return scan.Columns(), nil
}

// checks reports whether some answers may be failed ones because of their texts.
func (f *Fields) checks() bool { return f.JSON || f.Groups != nil || f.Schema != "" }

// read sets the fields of a sample, or its failure if they cannot be read from its text. A sample
// that calls tools may have no fields, and so may one whose row has another form than Schema.
func (f *Fields) read(s *sample, ownForm bool) {
	if s.failure != "" || !f.checks() {
		return
	}
	var text string
	_ = json.Unmarshal(s.response, &text) // an answer that is not a text has no fields
	var ok bool
	problem := "is not a JSON object"
	switch {
	case f.JSON:
		s.fields, ok = f.properties([]byte(text))
	case f.Groups != nil:
		s.fields, ok = f.groups(text)
		problem = "does not match the expression"
	default:
		ok = json.Valid([]byte(text))
		problem = "is not JSON"
	}
	if ok || len(s.toolCalls) > 0 || ownForm && f.Groups == nil {
		return
	}
	if s.finishReason == "length" {
		problem += ", since it was cut at the maximum number of tokens: write failed rows to another file (--failed), and answer it with more max_tokens"
	}
	s.failure, s.unparsed = CodeUnparsed+": the answer "+problem, true
}

func (f *Fields) properties(text []byte) ([]table.Field, bool) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return nil, false
	}
	var fields []table.Field
	index := map[string]int{}
	for name, value := range ordered.Members(text) {
		name = f.column(name)
		if i, again := index[name]; again { // as in most readers of JSON, the last one counts
			fields[i].Value = value
			continue
		}
		index[name] = len(fields)
		fields = append(fields, table.Field{Name: name, Value: value})
	}
	return fields, true
}

func (f *Fields) groups(text string) ([]table.Field, bool) {
	at := f.Groups.FindStringSubmatchIndex(text)
	if at == nil {
		return nil, false
	}
	var fields []table.Field
	for i, name := range f.Groups.SubexpNames() {
		if name == "" {
			continue
		}
		field := table.Field{Name: f.column(name)}
		if at[2*i] >= 0 {
			field.Value, _ = json.Marshal(text[at[2*i]:at[2*i+1]]) //nolint:errchkjson // a string can always be written
		}
		fields = append(fields, field)
	}
	return fields, true
}
