package schema

// item returns the Value of the item at an index.
func (a *Array) item(i int) Value {
	if i < len(a.Prefix) {
		return a.Prefix[i]
	}
	return a.Rest
}

// meetArrays returns nil if nothing is in both.
func (s *Schema) meetArrays(a, b *Array) (*Array, error) {
	switch {
	case a == anyArray || a == b:
		return b, nil
	case b == anyArray:
		return a, nil
	}
	out := &Array{
		Rest: s.values.and(a.Rest, b.Rest),
		Min:  max(a.Min, b.Min), Max: meetMax(a.Max, b.Max),
		Some: append(append([]Items(nil), a.Some...), b.Some...), Unique: a.Unique, place: a.place,
	}
	if out.place == nil {
		out.place = b.place
	}
	if out.Unique == nil {
		out.Unique = b.Unique
	}
	for i := range max(len(a.Prefix), len(b.Prefix)) {
		out.Prefix = append(out.Prefix, s.values.and(a.item(i), b.item(i)))
	}
	return s.tidyArray(out)
}

// tidyArray shortens an array at the first item that cannot be, and returns nil if too few are
// left.
func (s *Schema) tidyArray(a *Array) (*Array, error) {
	end := a.Max
	for i, v := range a.Prefix {
		if end >= 0 && i >= end {
			break
		}
		if s.isEmpty(v) {
			end = i
			break
		}
	}
	if (end < 0 || end > len(a.Prefix)) && s.isEmpty(a.Rest) {
		end = len(a.Prefix)
	}
	a.Max = end
	if end >= 0 {
		if a.Min > end {
			return nil, nil
		}
		if end <= len(a.Prefix) {
			a.Prefix, a.Rest = a.Prefix[:end], None
		}
	}
	for _, some := range a.Some {
		if s.isEmpty(some.Value) || end >= 0 && some.From+some.Count > end {
			return nil, nil
		}
	}
	if len(a.Prefix) > maxPrefix {
		return nil, errAlternatives
	}
	return a, nil
}

// maxPrefix is how many items may have a schema of their own.
const maxPrefix = 10_000

// notArray returns the arrays that a does not have.
func (s *Schema) notArray(a *Array) ([]*Array, error) {
	if a.Unique != nil {
		return nil, a.Unique.Fail("uniqueItems cannot be kept under not, oneOf or if")
	}
	var out []*Array
	if a.Min > 0 {
		out = append(out, &Array{Rest: Any, Max: a.Min - 1})
	}
	if a.Max >= 0 {
		out = append(out, &Array{Rest: Any, Min: a.Max + 1, Max: -1})
	}
	for i, v := range a.Prefix {
		if v == Any {
			continue
		}
		prefix := make([]Value, i+1)
		for j := range prefix {
			prefix[j] = Any
		}
		prefix[i] = s.values.not(v)
		out = append(out, &Array{Prefix: prefix, Rest: Any, Min: i + 1, Max: -1})
	}
	if not := s.values.not(a.Rest); not != None {
		from := len(a.Prefix)
		if not == Any {
			if a.Max < 0 {
				out = append(out, &Array{Rest: Any, Min: from + 1, Max: -1})
			}
		} else {
			out = append(out, &Array{Rest: Any, Max: -1, Some: []Items{{From: from, Count: 1, Value: not}}})
		}
	}
	for _, some := range a.Some {
		if some.Count > 1 {
			return nil, errCounted
		}
		prefix := make([]Value, some.From)
		for j := range prefix {
			prefix[j] = Any
		}
		out = append(out, &Array{Prefix: prefix, Rest: s.values.not(some.Value), Max: -1})
	}
	return out, nil
}
