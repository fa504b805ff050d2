package task

import (
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
	"github.com/ingot-run/ingot/internal/pyrandom"
)

// gpqa returns a function that adds the choices of GPQA in random order: choice1 to choice4,
// choices and the letter of the right one, answer. The harness draws from a generator with this
// seed; of several tasks in one run, only its first task has the same order. clean changes a
// choice.
func gpqa(seed uint64, clean func(string) string) rowsFunction {
	return func(rows []*ordered.Object) ([]*ordered.Object, error) {
		random := pyrandom.New(seed)
		return eachRow(func(row *ordered.Object) (*ordered.Object, error) { return gpqaRow(row, random, clean) })(rows)
	}
}

// gpqaTwice refuses the tasks gpqa_main_n_shot, gpqa_extended_n_shot and gpqa_diamond_n_shot. The
// harness shuffles their choices each time that it reads the rows, so that its scores mean nothing.
func gpqaTwice([]*ordered.Object) ([]*ordered.Object, error) {
	return nil, fmt.Errorf("GPQA's n_shot tasks are %w: lm-evaluation-harness shuffles the choices once for the prompts and again for the scores, which are therefore those of other choices: "+
		"use the zeroshot or generative_n_shot tasks, or those of the leaderboard, with --num-fewshot", ErrUnsupported)
}

func gpqaRow(row *ordered.Object, random *pyrandom.Random, clean func(string) string) (*ordered.Object, error) {
	var choices []ordered.Value
	for _, name := range []string{"Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3", "Correct Answer"} {
		choice := " "
		if v, ok := row.Get(name); !ok || v != nil {
			text, err := columnText(row, name)
			if err != nil {
				return nil, err
			}
			choice = clean(text)
		}
		choices = append(choices, choice)
	}
	right := choices[3]
	random.Shuffle(len(choices), func(i, j int) { choices[i], choices[j] = choices[j], choices[i] })
	made := row.Clone()
	letter := ""
	for i, c := range choices {
		made.Set("choice"+string(rune('1'+i)), c)
		if letter == "" && c == right {
			letter = "(" + string(rune('A'+i)) + ")"
		}
	}
	made.Set("choices", choices)
	made.Set("answer", letter)
	return made, nil
}

// withoutTitles removes a part of WikiHow's marks.
func withoutTitles(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), " [title]", ". ")
	return strings.ReplaceAll(s, "  ", " ")
}
