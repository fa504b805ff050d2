package generation

// Constraint is the form that an answer must have. Exactly one of its fields is set.
//
// The text of a choice has the form if the choice ends with FinishStop and no StopReason.
// FinishLength leaves text that is cut anywhere, and stop strings and StopIDs cut it too. The
// answer of a model that reasons first has the form after its reasoning, which is free.
type Constraint struct {
	// Schema is a JSON Schema (draft 2020-12) as JSON text. Properties are generated in the order
	// of the schema. {"type": "object"} allows any JSON object.
	Schema string
	// Regex is a regular expression that the whole text must match.
	Regex string
	// Choices are the possible texts.
	Choices []string
	// Grammar is a context-free grammar: in the dialect of Lark that llguidance reads, with
	// %json {...}, %regex and <special> tokens, or in GBNF, which is recognised by "::=".
	Grammar string
}

// validate returns an error unless exactly one field is set.
func (c *Constraint) validate() error {
	set := 0
	for _, is := range []bool{c.Schema != "", c.Regex != "", len(c.Choices) > 0, c.Grammar != ""} {
		if is {
			set++
		}
	}
	switch {
	case set == 0:
		return BadRequest("the constraint is empty: give a schema, a regex, choices or a grammar")
	case set > 1:
		return BadRequest("the constraint has more than one of schema, regex, choices and grammar: give one of them")
	}
	return nil
}
