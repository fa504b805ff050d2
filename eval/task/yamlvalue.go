package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/eval/taskcode"
	"github.com/ingot-run/ingot/internal/ordered"
)

// objects reads a YAML list of rows, or the list that a Python function returns.
func (r *reader) objects(n *yaml.Node) ([]*ordered.Object, error) {
	if name, ok := functionName(n); ok {
		file, function := r.pythonFile(name)
		source, err := readFile(file)
		if err != nil {
			return nil, fmt.Errorf("the examples are in a Python function: put its file beside the task, or give examples as rows: %w", err)
		}
		rows, err := listReturned(string(source), function)
		if err != nil && r.python != nil {
			return pythonRows(r.python.Call(taskcode.Plain, file, function))
		}
		return rows, err
	}
	if n.Kind != yaml.SequenceNode {
		return nil, errors.New("the value must be a list of rows")
	}
	var list []*ordered.Object
	for _, each := range n.Content {
		v, err := valueOf(each)
		if err != nil {
			return nil, err
		}
		o, ok := v.(*ordered.Object)
		if !ok {
			return nil, errors.New("each element must be a row: a mapping from columns to values")
		}
		list = append(list, o)
	}
	return list, nil
}

// valueOf converts a YAML value to the types of package ordered. Mappings keep the order of their
// keys.
func valueOf(n *yaml.Node) (ordered.Value, error) {
	switch {
	case n.Kind == yaml.AliasNode:
		return valueOf(n.Alias)
	case n.Kind == yaml.SequenceNode:
		list := []ordered.Value{}
		for _, each := range n.Content {
			v, err := valueOf(each)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case n.Kind == yaml.MappingNode && !slices.ContainsFunc(n.Content, func(key *yaml.Node) bool { return key.Tag == "!!merge" }):
		o := ordered.NewObject()
		for key, value := range inPairs(n.Content) {
			v, err := valueOf(value)
			if err != nil {
				return nil, err
			}
			o.Set(key.Value, v)
		}
		return o, nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return ordered.ParseJSON(text)
}

// inPairs returns the keys and values of a YAML mapping whose nodes are given.
func inPairs(nodes []*yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for pair := range slices.Chunk(nodes, 2) {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}

// mapping returns the nodes of a YAML mapping: the first key, its value, the second key, and so on.
// It returns nothing for an empty value.
func mapping(n *yaml.Node) ([]*yaml.Node, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode && n.Tag != "!!null" {
		return nil, errors.New("the value must be a mapping, such as {key: value}")
	}
	return n.Content, nil
}
