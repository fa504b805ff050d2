package eval

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/internal/ordered"
)

type examples struct {
	task *task.Task
	rows []*ordered.Object
	own  bool // rows are the task's own rows, so a row must not be its own example
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

// choose returns the examples for a row: the first ones, or random ones. The random choice depends
// only on the task's name and seed and on the row's number.
func (e *examples) choose(number int, row *ordered.Object) ([]*ordered.Object, error) {
	t := e.task
	if t.Shots == 0 {
		return nil, nil
	}
	same := func(*ordered.Object) bool { return true }
	if t.ShotColumn != "" {
		value, ok := row.Get(t.ShotColumn)
		if !ok {
			return nil, fmt.Errorf("the row has no column %q, by which its examples are chosen (\"same\" in fewshot_config)", t.ShotColumn)
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
		return nil, fmt.Errorf("no example row has the same value in column %q as the row: add one, or set num_fewshot to 0", t.ShotColumn)
	}
	return nil, fmt.Errorf("the task has %d examples for the row, but num_fewshot is %d: lower num_fewshot, or give more example rows", len(chosen), t.Shots)
}

// order returns the indices of the example rows: in ascending order if the task uses the first rows
// as examples, else in a random order that depends on number, the number of the row that gets the
// examples.
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
