package task

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// fieldFunction is a Python function that a field of a task file names.
type fieldFunction struct {
	field     *Field
	key, name string
}

// taskFunctions are functions for fields whose name is common to several tasks. prefix is the
// beginning of the names of the tasks that have this function.
var taskFunctions = []struct {
	prefix, name string
	function     func(row *ordered.Object) (ordered.Value, error)
}{
	{"leaderboard_musr_", "utils.doc_to_text", musrQuestion},
	{"leaderboard_mmlu_pro", "utils.doc_to_text", mmluProQuestion},
	{"leaderboard_mmlu_pro", "utils.doc_to_choice", mmluProLetters},
}

// unknownFunction is the function of a field until findFunctions has found it.
func unknownFunction(*ordered.Object) (ordered.Value, error) {
	return nil, errors.New("the Python function is not known")
}

// findFunctions sets the functions of fields by the name of the task.
func (r *reader) findFunctions() error {
	for _, f := range r.functions {
		found := false
		for _, t := range taskFunctions {
			if strings.HasPrefix(r.task.Name, t.prefix) && t.name == f.name {
				f.field.function, found = t.function, true
			}
		}
		if !found {
			return fmt.Errorf("%s: %w", f.key, unsupportedFunction(f.name))
		}
	}
	return nil
}

// musrQuestion is the question of MuSR: the story, the question and the numbered choices. The
// column choices has a Python list as text.
func musrQuestion(row *ordered.Object) (ordered.Value, error) {
	var parts [3]string
	for i, name := range []string{"narrative", "question", "choices"} {
		var err error
		if parts[i], err = columnText(row, name); err != nil {
			return nil, err
		}
	}
	v, err := literal(parts[2])
	list, ok := v.([]ordered.Value)
	if err != nil || !ok {
		return nil, errors.New(`column "choices" is not a Python list as text`)
	}
	text := parts[0] + "\n\n" + parts[1] + "\n\n"
	for i, c := range list {
		text += strconv.Itoa(i+1) + " - " + textOf(c) + "\n"
	}
	return text + "\nAnswer:", nil
}

// mmluProOptions returns the options of a question of MMLU-Pro.
func mmluProOptions(row *ordered.Object) ([]ordered.Value, error) {
	v, _ := row.Get("options")
	list, ok := v.([]ordered.Value)
	if !ok || len(list) > 26 {
		return nil, errors.New(`column "options" is not a list of at most 26 options`)
	}
	return list, nil
}

func mmluProQuestion(row *ordered.Object) (ordered.Value, error) {
	question, err := columnText(row, "question")
	if err != nil {
		return nil, err
	}
	list, err := mmluProOptions(row)
	text := question + "\n"
	for i, o := range list {
		text += string(rune('A'+i)) + ". " + textOf(o) + "\n"
	}
	return text + "Answer:", err
}

func mmluProLetters(row *ordered.Object) (ordered.Value, error) {
	list, err := mmluProOptions(row)
	letters := make([]ordered.Value, len(list))
	for i := range list {
		letters[i] = string(rune('A' + i))
	}
	return letters, err
}
