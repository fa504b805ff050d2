package batch

import (
	"slices"
	"strings"
)

// Query selects a page of a list.
type Query struct {
	After     string // the page begins after the item with this id, which may have been deleted; empty for the first page
	Limit     int    // maximum number of items, at least 1
	Ascending bool   // oldest first; otherwise newest first
}

// Page is a part of a list.
type Page[T any] struct {
	Items []T
	More  bool // there are more items after this page
}

// page returns the items that a query selects. ids must be sorted, which is the order of creation.
// item returns the item with an id, and whether the list has it. The error is a *RequestError if
// q.After does not begin with prefix, the prefix of all ids.
func page[T any](ids []string, prefix string, q Query, item func(id string) (T, bool)) (Page[T], error) {
	first, step := 0, 1
	if !q.Ascending {
		first, step = len(ids)-1, -1
	}
	if q.After != "" {
		if !strings.HasPrefix(q.After, prefix) {
			return Page[T]{}, invalid("after", `"after" must be the id of an item of this list, not %.100q`, q.After)
		}
		at, found := slices.BinarySearch(ids, q.After)
		switch {
		case !q.Ascending:
			first = at - 1
		case found:
			first = at + 1
		default:
			first = at
		}
	}
	p := Page[T]{Items: []T{}}
	for i := first; i >= 0 && i < len(ids); i += step {
		v, ok := item(ids[i])
		if !ok {
			continue
		}
		if len(p.Items) == q.Limit {
			p.More = true
			break
		}
		p.Items = append(p.Items, v)
	}
	return p, nil
}

func insert(ids []string, id string) []string {
	at, _ := slices.BinarySearch(ids, id)
	return slices.Insert(ids, at, id)
}

// drop removes an id that ids has.
func drop(ids []string, id string) []string {
	at, _ := slices.BinarySearch(ids, id)
	return slices.Delete(ids, at, at+1)
}
