package cache

// Known returns how many pages at the beginning of a text are in the cache. Without sliding groups,
// a new table can adopt all of them.
func (p *Pool) Known(text Prefix) int {
	for n, key := range text {
		if !p.knows(key, false) {
			return n
		}
	}
	return len(text)
}
