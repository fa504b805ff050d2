package table

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

type condition struct {
	source  string
	program *vm.Program
	names   []string // columns that the expression names
	machine vm.VM
}

func newCondition(source string, columns []string) (*condition, error) {
	c := &condition{source: source}
	env := types.Map{}
	for _, name := range columns {
		env[name] = types.Any
	}
	options := []expr.Option{expr.Env(env), expr.AsBool()}
	if columns == nil {
		options = append(options, expr.AllowUndefinedVariables())
	}
	var err error
	if c.program, err = expr.Compile(source, options...); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		if columns != nil {
			text += "; the columns are " + Quoted(columns)
		}
		return nil, fmt.Errorf("condition %q: %s", source, text)
	}
	node := c.program.Node()
	ast.Walk(&node, c)
	return c, nil
}

func (c *condition) Visit(node *ast.Node) { //nolint:gocritic // ast.Visitor requires the pointer
	if n, ok := (*node).(*ast.IdentifierNode); ok && !slices.Contains(c.names, n.Value) {
		c.names = append(c.names, n.Value)
	}
}

func (c *condition) matches(r Record) (bool, error) {
	whole := slices.Contains(c.names, "$env")
	env := map[string]any{}
	for _, f := range r.Fields {
		if !whole && !slices.Contains(c.names, f.Name) {
			continue
		}
		v, err := valueOf(f.Value)
		if err != nil {
			return false, fmt.Errorf("record %d: column %q: %w", r.Number, f.Name, err)
		}
		env[f.Name] = v
	}
	result, err := c.machine.Run(c.program, env)
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return false, fmt.Errorf("record %d: condition %q: %s (values in CSV are strings: use int(x) or float(x); a missing value is nil: use x ?? 0)",
			r.Number, c.source, text)
	}
	return result.(bool), nil
}

func valueOf(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return withNumbers(v), err
}

func withNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return int(i)
		}
		f, _ := v.Float64() // a number out of range becomes infinite
		return f
	case []any:
		for i := range v {
			v[i] = withNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = withNumbers(v[k])
		}
	}
	return v
}
