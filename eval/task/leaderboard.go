package task

import (
	"errors"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// musrQuestion is the question of MuSR: the story, the question and the numbered choices. The
// column choices has a Python list as text.
func musrQuestion(row *ordered.Object) (ordered.Value, error) {
	parts, err := columnTexts(row, "narrative", "question", "choices")
	if err != nil {
		return nil, err
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

// mmluProThinking is a question of MMLU-Pro that is answered step by step.
func mmluProThinking(row *ordered.Object) (ordered.Value, error) {
	question, err := columnText(row, "question")
	if err != nil {
		return nil, err
	}
	list, err := columnList(row, "options")
	text := "Question:\n" + question + "\nOptions:\n"
	for i, o := range list[:min(10, len(list))] {
		text += string(rune('A'+i)) + ". " + strings.TrimSpace(textOf(o)) + "\n"
	}
	return text + "Answer: Let's think step by step.", err
}

// mmluProThoughts is the answer of an example, without its first sentence, which is part of the
// question.
func mmluProThoughts(row *ordered.Object) (ordered.Value, error) {
	thoughts, err := columnText(row, "cot_content")
	return strings.ReplaceAll(thoughts, "A: Let's think step by step. ", ""), err
}
