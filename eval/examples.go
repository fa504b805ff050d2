package eval

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/ordered"
)

// examples are the rows from which the examples of a task's prompts are taken.
type examples struct {
	task *task.Task
	rows []*ordered.Object
	own  bool // rows are the rows of the task; no row is its own example
}

func newExamples(t *task.Task, rows []*ordered.Object) (*examples, error) {
	switch {
	case t.Examples != nil:
		return &examples{t, t.Examples, false}, nil
	case t.FewShotData != "":
		_, others, err := readRows(t.FewShotData)
		return &examples{t, others, false}, err
	}
	return &examples{t, rows, true}, nil
}

// choose returns the examples for a row: the first ones, or random ones. The draw depends only on the name and seed of the task and the
// number of the row.
func (e *examples) choose(number int, row *ordered.Object) ([]*ordered.Object, error) {
	t := e.task
	if t.Shots == 0 {
		return nil, nil
	}
	same := func(*ordered.Object) bool { return true }
	if t.ShotColumn != "" {
		value, ok := row.Get(t.ShotColumn)
		if !ok {
			return nil, fmt.Errorf("the row has no column %q, which its examples have in common with it", t.ShotColumn)
		}
		same = func(o *ordered.Object) bool {
			v, ok := o.Get(t.ShotColumn)
			return ok && fmt.Sprint(v) == fmt.Sprint(value)
		}
	}
	var chosen []*ordered.Object
	for _, i := range e.order(number) {
		if e.own && i == number || !same(e.rows[i]) {
			continue
		}
		if chosen = append(chosen, e.rows[i]); len(chosen) == t.Shots {
			return chosen, nil
		}
	}
	if len(chosen) == 0 && t.ShotColumn != "" {
		return nil, errors.New("no example has the row's value in column " + t.ShotColumn)
	}
	return nil, fmt.Errorf("the task has %d examples for it, and %d are needed", len(chosen), t.Shots)
}

// order returns the numbers of the rows of examples in random order; a row gets the first ones. The order depends on the row.
func (e *examples) order(number int) []int {
	order := make([]int, len(e.rows))
	for i := range order {
		order[i] = i
	}
	if !e.task.ShotsInOrder {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s %d", e.task.Name, number)                //nolint:errcheck // a hash does not fail
		random := rand.New(rand.NewPCG(h.Sum64(), e.task.ShotSeed)) //nolint:gosec // examples
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	return order
}
