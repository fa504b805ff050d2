package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/files/table"
)

// blankCells counts the cells without text that a template uses.
type blankCells struct {
	rows     int
	columns  []string // columns with such cells, in the order of their first one
	cells    map[string]int
	reported bool // nothing is counted any more
}

// count counts the cells of a record in the given columns.
func (b *blankCells) count(r table.Record, columns []string) {
	b.rows++
	for _, f := range r.Fields {
		if !slices.Contains(columns, f.Name) || !isBlank(f.Value) {
			continue
		}
		if b.cells == nil {
			b.cells = map[string]int{}
		}
		if b.cells[f.Name]++; b.cells[f.Name] == 1 {
			b.columns = append(b.columns, f.Name)
		}
	}
}

// isBlank reports whether a value is null or a string without text.
func isBlank(v json.RawMessage) bool {
	v = bytes.TrimSpace(v)
	if isNull(v) {
		return true
	}
	if len(v) < 2 || v[0] != '"' {
		return false
	}
	inside := v[1 : len(v)-1]
	if len(inside) > 0 && inside[0] != ' ' && inside[0] != '\\' {
		return false
	}
	var s string
	return json.Unmarshal(v, &s) == nil && strings.TrimSpace(s) == ""
}

// text says which columns have cells without text. It is empty if there are none.
func (b *blankCells) text() string {
	if b.reported || len(b.columns) == 0 {
		return ""
	}
	parts := make([]string, len(b.columns))
	for i, name := range b.columns {
		parts[i] = fmt.Sprintf("%q is empty in %d of %d rows", name, b.cells[name], b.rows)
	}
	return ": " + strings.Join(parts, ", ") + fmt.Sprintf("; their prompts lack this text (--where '%s != \"\"' leaves such rows out)", b.columns[0])
}

// columns returns the columns that the templates use.
func (o *Options) columns() []string {
	switch {
	case o.Template == nil && o.System == nil:
		return nil
	case o.System == nil:
		return o.Template.columns
	case o.Template == nil:
		return o.System.columns
	}
	return slices.Concat(o.Template.columns, o.System.columns)
}
