package hub

import "strings"

// Entry is a model of the catalog: a short name for one file of a repository.
type Entry struct {
	Name    string
	File    string // user/repo:selection
	Bytes   int64  // of its files
	Cache   int64  // bytes of a token in the KV cache, in f16
	Licence string
	For     string // what it is good for
}

// Catalog is a small list of models that are worth to be tried first. The smallest is first.
var Catalog = []Entry{}

// lookup returns the entry with a short name.
func lookup(name string) (Entry, bool) {
	for _, m := range Catalog {
		if strings.EqualFold(m.Name, name) {
			return m, true
		}
	}
	return Entry{}, false
}
