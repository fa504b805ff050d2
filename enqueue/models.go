package enqueue

import (
	"fmt"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// MaxModels is the maximum number of model aliases to which the rows of a file go. Without this
// limit, a file whose rows all name different models would make a queue for each row.
const MaxModels = 100

// Models decides to which model alias each row of a file goes: to the model that it names or, if it
// names none, to a default alias.
type Models struct {
	alias string
	rows  map[string]int
}

// NewModels returns a Models with a default alias.
func NewModels(alias string) *Models { return &Models{alias: alias, rows: map[string]int{}} }

// Of returns the alias to which a valid row goes, and counts the row. The rows must be passed in
// the order of the file. Of returns an error if the model that the row names cannot be an alias, or
// if earlier rows have MaxModels other aliases.
func (m *Models) Of(row rows.Row) (alias string, err *openai.Error) {
	alias = m.alias
	if row.Model != "" {
		alias = row.Model
	}
	if m.rows[alias] == 0 {
		reason := queue.CheckAlias(alias)
		if reason == nil && len(m.rows) == MaxModels {
			reason = fmt.Errorf("model %q: the rows before name %d other models, which is the maximum", alias, MaxModels)
		}
		if reason != nil {
			return "", &openai.Error{Code: openai.CodeUnknownModel, Message: reason.Error() + " (--unknown-fields ignore accepts other names)"}
		}
	}
	m.rows[alias]++
	return alias, nil
}

// Rows returns the number of rows of each alias.
func (m *Models) Rows() map[string]int { return m.rows }
