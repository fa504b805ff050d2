package table

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/ingot-run/ingot/files/where"
	"github.com/ingot-run/ingot/internal/textfmt"
)

type condition struct {
	source  string
	program *where.Condition
}

// unknownName is what package where reports about a column that does not exist.
var unknownName = regexp.MustCompile(`^unknown name (\w+)`)

func newCondition(source string, columns []string) (*condition, error) {
	program, err := where.Compile(source, columns)
	if err != nil {
		text := strings.Replace(err.Error(), "error parsing regexp: ", "the regular expression is wrong: ", 1)
		if strings.HasPrefix(text, `unexpected token Operator("=")`) {
			text += "; == compares"
		}
		if columns != nil {
			text += "; the columns are " + Quoted(columns) + DelimiterHint(columns)
			if m := unknownName.FindStringSubmatch(text); m != nil {
				text += textfmt.DidYouMean(m[1], columns)
			}
		}
		return nil, fmt.Errorf("condition %q: %s", source, text)
	}
	return &condition{source, program}, nil
}

func (c *condition) matches(r Record) (bool, error) {
	values := map[string]any{}
	for _, f := range r.Fields {
		if !c.program.Names(f.Name) {
			continue
		}
		v, err := valueOf(f.Value)
		if err != nil {
			return false, fmt.Errorf("record %d: column %q: %w", r.Number, f.Name, err)
		}
		values[f.Name] = v
	}
	matches, err := c.program.Match(values)
	if err != nil {
		return false, fmt.Errorf("record %d: condition %q: %w (values in CSV are strings: use int(x) or float(x); a missing value is nil: use x ?? 0)",
			r.Number, c.source, err)
	}
	return matches, nil
}

func valueOf(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return withNumbers(v), err
}

func withNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return int(i)
		}
		f, _ := v.Float64() // a number out of range becomes infinite
		return f
	case []any:
		for i := range v {
			v[i] = withNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = withNumbers(v[k])
		}
	}
	return v
}
