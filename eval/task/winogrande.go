package task

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

func winograndeBlank(row *ordered.Object) (before, after string, err error) {
	sentence, err := columnText(row, "sentence")
	if err != nil {
		return "", "", err
	}
	before, after, ok := strings.Cut(sentence, "_")
	if !ok {
		return "", "", errors.New(`column "sentence" has no blank ("_")`)
	}
	return before, after, nil
}

func winograndeRight(row *ordered.Object) (ordered.Value, error) {
	answer, err := columnText(row, "answer")
	if err != nil {
		return nil, err
	}
	switch answer {
	case "1":
		return int64(0), nil
	case "2":
		return int64(1), nil
	}
	return nil, fmt.Errorf(`column "answer" is %q, not "1" or "2"`, answer)
}

func winograndeEnd(row *ordered.Object) (ordered.Value, error) {
	_, after, err := winograndeBlank(row)
	return strings.TrimSpace(after), err
}

func winograndeBeginnings(row *ordered.Object) (ordered.Value, error) {
	before, _, err := winograndeBlank(row)
	if err != nil {
		return nil, err
	}
	var list []ordered.Value
	for _, name := range []string{"option1", "option2"} {
		option, err := columnText(row, name)
		if err != nil {
			return nil, err
		}
		list = append(list, before+option)
	}
	return list, nil
}
