package eval

import (
	"fmt"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/internal/ordered"
	"github.com/ingot-run/ingot/internal/pyrandom"
)

// examples chooses the examples of rows, as the classes ContextSampler and FirstNSampler of the
// harness do.
type examples struct {
	task  *task.Task
	pools map[string]*pool // by the value of the task's ShotColumn; one pool without such a column

	exclusive bool // a row, and rows equal to it, are not its examples
}

// pool is a list of example rows with the generator that draws from it.
type pool struct {
	rows   []*ordered.Object
	keys   []string       // equal for equal rows
	equal  map[string]int // number of rows with each key
	random *pyrandom.Random
}

func newExamples(t *task.Task, rows []*ordered.Object) (*examples, error) {
	e := &examples{task: t, pools: map[string]*pool{}}
	from := rows
	switch {
	case t.FewShotData != "" && (t.Examples == nil || t.Splits.Shots != ""): // as in the harness, a named split counts more than listed examples
		var err error
		if _, from, err = taskRows(t, t.FewShotData); err != nil {
			return nil, err
		}
		e.exclusive = t.Splits.Exclusive()
	case t.NoExamples != nil && t.FewShotData == "" && t.Shots > 0 && (t.Examples == nil || t.Splits.Shots != ""):
		return nil, fmt.Errorf("the examples are missing: %w: name their file with \"fewshot_data\" in the task, or with --fewshot-data", t.NoExamples)
	case t.Examples != nil:
		from, e.exclusive = t.Examples, t.Splits.Exclusive()
	default:
		// The harness draws these rows too if the split of the examples is that of the rows.
		// Otherwise, the user gave no file of examples.
		e.exclusive = t.Splits.Exclusive() || t.Splits.Examples() != t.Splits.Rows()
	}
	for _, row := range from {
		value, _ := columnKey(row, t.ShotColumn)
		p := e.pools[value]
		if p == nil {
			p = &pool{equal: map[string]int{}, random: pyrandom.New(t.ShotSeed)}
			e.pools[value] = p
		}
		key := task.RowKey(row)
		p.rows, p.keys = append(p.rows, row), append(p.keys, key)
		p.equal[key]++
	}
	return e, nil
}

// columnKey returns a row's value in a column as text. ok is false if the row lacks the column.
func columnKey(row *ordered.Object, column string) (key string, ok bool) {
	if column == "" {
		return "", true
	}
	v, ok := row.Get(column)
	return fmt.Sprint(v), ok
}

// choose returns the examples for a row: the first ones, or random ones. Random examples depend on
// the task's seed, on the example rows, and on how many rows before this one have drawn.
func (e *examples) choose(row *ordered.Object) ([]*ordered.Object, error) {
	t := e.task
	if t.Shots == 0 {
		return nil, nil
	}
	value, ok := columnKey(row, t.ShotColumn)
	if !ok {
		return nil, fmt.Errorf("the row has no column %q, by which its examples are chosen (\"same\" in fewshot_config)", t.ShotColumn)
	}
	p, key := e.pools[value], ""
	if e.exclusive {
		key = task.RowKey(row)
	}
	if p == nil {
		p = &pool{}
	}
	switch n := len(p.rows) - p.equal[key]; {
	case n == 0 && t.ShotColumn != "":
		return nil, fmt.Errorf("no example row has the same value in column %q as the row: add one, or set num_fewshot to 0", t.ShotColumn)
	case n < t.Shots:
		return nil, fmt.Errorf("the task has %d examples for the row, but num_fewshot is %d: lower num_fewshot, or give more example rows", n, t.Shots)
	}
	if t.ShotsInOrder {
		return p.at(p.others(key, t.Shots)), nil
	}
	return p.at(p.draw(t.Shots, key)), nil
}

// draw draws n rows. Rows with the key excluded are not drawn; an empty key excludes none.
func (p *pool) draw(n int, excluded string) []int {
	if excluded == "" {
		return p.random.Sample(len(p.rows), n)
	}
	var kept []int
	for _, i := range p.random.Sample(len(p.rows), min(n+1, len(p.rows))) {
		if p.keys[i] != excluded && len(kept) < n {
			kept = append(kept, i)
		}
	}
	if len(kept) == n {
		return kept
	}
	others := p.others(excluded, len(p.rows)) // several of the drawn rows were excluded
	kept = p.random.Sample(len(others), n)
	for i, j := range kept {
		kept[i] = others[j]
	}
	return kept
}

// others returns the indices of the first n rows that do not have the key excluded.
func (p *pool) others(excluded string, n int) []int {
	var list []int
	for i := 0; i < len(p.rows) && len(list) < n; i++ {
		if p.keys[i] != excluded {
			list = append(list, i)
		}
	}
	return list
}

func (p *pool) at(indices []int) []*ordered.Object {
	list := make([]*ordered.Object, len(indices))
	for i, j := range indices {
		list[i] = p.rows[j]
	}
	return list
}
