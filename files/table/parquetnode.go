package table

import (
	"errors"
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// rowValues has the values of a row that are not read yet, by leaf column. Parquet stores nested
// values as lists with two levels per value. The definition level is the number of optional and
// repeated nodes on the path to the value that are present. The repetition level is the depth of
// the list on the path in which the value begins a new element; 0 if it is the first value of the
// row.
type rowValues struct{ left [][]parquet.Value }

func (r *rowValues) set(row parquet.Row, leaves int) {
	if r.left == nil {
		r.left = make([][]parquet.Value, leaves)
	}
	clear(r.left)
	row.Range(func(column int, values []parquet.Value) bool {
		if column < leaves {
			r.left[column] = values
		}
		return true
	})
}

var errNoValue = errors.New("the row has too few values: the file is damaged")

func (r *rowValues) peek(leaf int) (parquet.Value, error) {
	if len(r.left[leaf]) == 0 {
		return parquet.Value{}, errNoValue
	}
	return r.left[leaf][0], nil
}

type node struct {
	name        string
	form        form
	optional    bool
	definition  int // definition level from which the node is present
	repetition  int // repetition level of the node if it is a list, otherwise of the list around it
	elements    int // definition level from which the list has elements
	first, last int // indices of the node's leaf columns: from first to last-1
	children    []*node
	leaf        leafType
}

type form int

const (
	leafForm     form = iota
	groupForm         // an object
	repeatedForm      // a list of its only child
	mapForm           // an object; the only child is repeated and has a name and a value
)

const maxDepth = 64

// leafColumns counts the leaf columns of a file. logical has the types that the file's schema gives
// them: the library knows only some of these types.
type leafColumns struct {
	logical []format.LogicalTypeValue
	n       int
}

func newLeafColumns(schema []format.SchemaElement) *leafColumns {
	l := new(leafColumns)
	for i := range schema {
		if schema[i].Type.Valid { // a group has no type
			l.logical = append(l.logical, schema[i].LogicalType.Value)
		}
	}
	return l
}

// typeOf returns the type of the next leaf column.
func (l *leafColumns) typeOf(c *parquet.Column) (leafType, error) {
	logical := logicalType(c.Type())
	if logical == nil && l.n < len(l.logical) {
		logical = l.logical[l.n]
	}
	l.n++
	return newLeafType(c.Type(), logical)
}

// newNode describes a column below a parent. leaves has counted the leaf columns before this
// column; newNode adds those of the column.
func newNode(c *parquet.Column, parent node, leaves *leafColumns) (*node, error) {
	if c.Depth() > maxDepth {
		return nil, fmt.Errorf("the column is nested more than %d levels deep", maxDepth)
	}
	n := &node{name: c.Name(), optional: c.Optional(), definition: parent.definition, repetition: parent.repetition, first: leaves.n}
	switch {
	case c.Repeated():
		n.definition++
		n.repetition++
	case c.Optional():
		n.definition++
	}
	element := *n
	defer func() { n.last = leaves.n }()
	if c.Leaf() {
		var err error
		if n.leaf, err = leaves.typeOf(c); err != nil {
			return nil, err
		}
	} else {
		n.form = groupForm
		for _, child := range c.Columns() {
			each, err := newNode(child, *n, leaves)
			if err != nil {
				return nil, err
			}
			n.children = append(n.children, each)
		}
		if n.first == leaves.n {
			return nil, errors.New("the column is a group without values")
		}
		n.annotate(c)
	}
	if !c.Repeated() {
		return n, nil
	}
	// A repeated node is a list, whose elements are the same node without the repetition.
	once := *n
	once.optional, once.last = false, leaves.n
	*n = element
	n.form, n.elements, n.children = repeatedForm, n.definition, []*node{&once}
	return n, nil
}

// annotate sets the form of a group to a list or a map if the group has the annotation and the
// structure of one.
func (n *node) annotate(c *parquet.Column) {
	if len(n.children) != 1 || n.children[0].form != repeatedForm {
		return
	}
	inner, element := n.children[0], n.children[0].children[0]
	switch logicalType(c.Type()).(type) {
	case *format.ListType:
		n.form = repeatedForm
		// Old writers repeat the element itself instead of a group around it.
		old := element.name == "array" || strings.HasSuffix(element.name, "_tuple")
		if element.form == groupForm && len(element.children) == 1 && !old {
			element = element.children[0]
		}
		n.repetition, n.elements, n.children = inner.repetition, inner.elements, []*node{element}
	case *format.MapType:
		if element.form != groupForm || len(element.children) != 2 {
			return
		}
		n.form, n.repetition, n.elements, n.children = mapForm, inner.repetition, inner.elements, []*node{element}
		if element.children[0].kind() != String {
			n.form = repeatedForm // a list of pairs: JSON's names are texts
		}
	}
}

func (n *node) kind() Kind {
	if n.form == leafForm {
		return n.leaf.kind
	}
	return JSON
}

func (n *node) appendTo(dst []byte, r *rowValues) ([]byte, error) {
	v, err := r.peek(n.first)
	if err != nil {
		return nil, err
	}
	if n.optional && v.DefinitionLevel() < n.definition {
		return append(dst, "null"...), n.skip(r)
	}
	switch n.form {
	case leafForm:
		r.left[n.first] = r.left[n.first][1:]
		if v.IsNull() {
			return append(dst, "null"...), nil
		}
		return n.leaf.append(dst, v)
	case groupForm:
		dst = append(dst, '{')
		for i, c := range n.children {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(dst, quote(c.name)...), ':')
			if dst, err = c.appendTo(dst, r); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return n.appendElements(dst, r)
}

func (n *node) appendElements(dst []byte, r *rowValues) ([]byte, error) {
	brackets := "[]"
	if n.form == mapForm {
		brackets = "{}"
	}
	dst = append(dst, brackets[0])
	first, err := r.peek(n.first)
	if err != nil {
		return nil, err
	}
	if first.DefinitionLevel() < n.elements {
		return append(dst, brackets[1]), n.skip(r)
	}
	for i := 0; ; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.form == mapForm {
			dst, err = n.appendPair(dst, r)
		} else {
			dst, err = n.children[0].appendTo(dst, r)
		}
		if err != nil {
			return nil, err
		}
		left := r.left[n.first]
		if len(left) == 0 || left[0].RepetitionLevel() < n.repetition {
			return append(dst, brackets[1]), nil
		}
	}
}

func (n *node) appendPair(dst []byte, r *rowValues) ([]byte, error) {
	pair := n.children[0]
	dst, err := pair.children[0].appendTo(dst, r)
	if err != nil {
		return nil, err
	}
	return pair.children[1].appendTo(append(dst, ':'), r)
}

// skip removes one value of each leaf column of a node that is null or empty.
func (n *node) skip(r *rowValues) error {
	for leaf := n.first; leaf < n.last; leaf++ {
		if len(r.left[leaf]) == 0 {
			return errNoValue
		}
		r.left[leaf] = r.left[leaf][1:]
	}
	return nil
}

func logicalType(t parquet.Type) format.LogicalTypeValue {
	if l := t.LogicalType(); l != nil {
		return l.Value
	}
	return nil
}
