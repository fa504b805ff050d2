package schema

// Arrange writes a JSON text in the order and the spelling in which the rules of a schema write it,
// and reports whether the schema allows it.
func Arrange(s *Schema, v Value, text string, spaced bool) (string, bool) {
	value, err := decode(text)
	if err != nil {
		panic(err)
	}
	return s.arrange(v, value, spaced)
}

// ExpandAll expands all values that v reaches.
func ExpandAll(s *Schema, v Value) error { return s.expandAll(v) }
