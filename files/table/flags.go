package table

import "fmt"

// Flags has the values of the flags that say how a file is written, and which of its records are
// read. Its errors name the flag.
type Flags struct {
	Format    string
	Encoding  string // empty for UTF-8
	Delimiter string // as for ParseComma; empty for a comma
	Select    Selection
}

// Options returns the options with which the file is opened. given reports whether a flag is given.
func (f *Flags) Options(given func(flag string) bool) (o Options, err error) {
	o.Encoding, o.Select = f.Encoding, f.Select
	if o.Format, err = ParseFormat(f.Format); err != nil {
		return o, fmt.Errorf("--format: %w", err)
	}
	if f.Encoding != "" {
		if err := CheckEncoding(f.Encoding); err != nil {
			return o, fmt.Errorf("--encoding: %w", err)
		}
	}
	if f.Delimiter != "" {
		if o.Comma, err = ParseComma(f.Delimiter); err != nil {
			return o, fmt.Errorf("--delimiter: %w", err)
		}
	}
	return o, f.Select.check(given)
}

func (s *Selection) check(given func(flag string) bool) error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"skip", s.Skip}, {"sample", s.Sample}, {"limit", s.Limit}} {
		if given(n.flag) && n.value < 1 {
			return fmt.Errorf("--%s: %d is not allowed: give a number of at least 1", n.flag, n.value)
		}
	}
	if given("where") && s.Where == "" {
		return fmt.Errorf("--where: the condition is empty")
	}
	return nil
}
