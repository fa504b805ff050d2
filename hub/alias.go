package hub

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Aliased is a model with the alias under which requests name it.
type Aliased struct {
	Alias string
	Model string // a file or a model name
}

// ErrSameAlias means that two models have the same alias.
var ErrSameAlias = errors.New("two models have the alias")

// ParseAliased reads lines of MODEL or ALIAS=MODEL. Without ALIAS=, the alias is the short name of
// a pulled model, else the name of the model's file without .gguf; Store.Find then looks for the
// file.
func (s Store) ParseAliased(lines string) (all []Aliased, err error) {
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		m := Aliased{Model: line}
		if alias, model, named := strings.Cut(line, "="); named && !strings.ContainsAny(alias, "/:") { // a URL may contain =
			m = Aliased{alias, model}
		} else if m.Alias, err = s.aliasOf(line); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(o Aliased) bool { return o.Alias == m.Alias }) {
			return nil, fmt.Errorf("%w %q: give them different ones as ALIAS=FILE", ErrSameAlias, m.Alias)
		}
		all = append(all, m)
	}
	return all, nil
}

func (s Store) aliasOf(model string) (string, error) {
	n, err := ParseName(model)
	if err != nil {
		return "", fmt.Errorf("find the model: %w", err)
	}
	if n.Short != "" {
		return n.Short, nil
	}
	found, err := s.Find(n)
	name := strings.TrimSuffix(filepath.Base(found.Path), ".gguf")
	if i := strings.Index(name, "-00001-of-"); i > 0 {
		name = name[:i]
	}
	return name, err
}
