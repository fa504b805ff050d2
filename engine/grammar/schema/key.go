package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// key returns a number that equal values share. Annotations of schemas do not count.
func (s *Schema) key(value any) int {
	switch v := value.(type) {
	case *ordered.Object:
		if k, ok := s.keys[v]; ok {
			return k
		}
		k := s.intern(s.objectKey(v))
		s.keys[v] = k
		return k
	case []any:
		var b strings.Builder
		b.WriteByte('[')
		for _, item := range v {
			b.WriteString(strconv.Itoa(s.key(item)))
			b.WriteByte(',')
		}
		return s.intern(b.String())
	case string:
		return s.intern(`"` + v)
	case json.Number:
		return s.intern("#" + v.String())
	}
	return s.intern(fmt.Sprint(value))
}

func (s *Schema) objectKey(o *ordered.Object) string {
	schema := s.document.nodes[o] != nil
	var b strings.Builder
	if schema {
		b.WriteByte('s')
	}
	for name, value := range o.All() {
		if schema && groups[name] == noGroup && name != "then" && name != "else" {
			continue
		}
		fmt.Fprintf(&b, "{%d:%s=%d", len(name), name, s.key(value))
	}
	return b.String()
}

func (s *Schema) intern(text string) int {
	if id, ok := s.interned[text]; ok {
		return id
	}
	id := len(s.interned)
	s.interned[text] = id
	return id
}
