package grammar

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// constraint adds the rules of c, and returns their start.
func (r *rules) constraint(c *generation.Constraint) (start symbol, err error) {
	switch {
	case c.Schema != "":
		start, err = schemaRules(r, c.Schema)
	case c.Regex != "":
		start, err = regexRules(r, c.Regex)
	case c.Grammar != "":
		start, err = grammarRules(r, c.Grammar)
	case len(c.Choices) > 0:
		start = choiceRules(r, c.Choices)
	default:
		return none, &Error{Message: "the constraint is empty: give a schema, a regex, choices or a grammar"}
	}
	if err == nil {
		err = r.failed()
	}
	if err = explain(err); err != nil && c.Schema+c.Regex+c.Grammar == "" && !isContext(err) {
		err = tooManyChoices(c.Choices, err)
	}
	return start, err
}

// tooManyChoices returns the error of choices that are beyond the limits.
func tooManyChoices(choices []string, err error) error {
	if len(choices) == 0 {
		return err
	}
	size := 0
	for _, c := range choices {
		size += len(c)
	}
	return &Error{Message: fmt.Sprintf("%d choices with %d bytes together take too long to prepare: give fewer or shorter ones", len(choices), size)}
}

// choiceRules makes the rules of one of choices.
func choiceRules(r *rules, choices []string) symbol {
	var list []regex.Node
	for _, c := range slices.Compact(slices.Sorted(slices.Values(choices))) {
		list = append(list, r.re.Literal(c))
	}
	return r.lexeme(r.re.Or(list...))
}
