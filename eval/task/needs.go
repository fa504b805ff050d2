package task

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// checkFunctions returns an error if the task has Python functions that cannot run, or runs
// programs that the model has written without the user's leave.
func (r *reader) checkFunctions() error {
	if len(r.called) == 0 && (!r.task.Programs || r.python != nil) {
		return nil
	}
	needs, several := r.needs()
	if r.python == nil {
		are, them := "is", "it"
		if several {
			are, them = "are", "them"
		}
		return fmt.Errorf("%s %s %w: --trust-task-code runs %s with python3%s", needs, are, ErrUnsupported, them, r.missingFile())
	}
	if err := r.python.Start(); err != nil {
		return fmt.Errorf("run %s: %w", needs, err)
	}
	r.task.python = r.python
	for _, f := range r.called {
		if err := r.python.Find(f.file, f.function); err != nil {
			return err
		}
	}
	return nil
}

// needs names what the task runs in Python.
func (r *reader) needs() (names string, several bool) {
	var list []string
	for _, f := range r.called {
		list = append(list, strconv.Quote(f.name))
	}
	names = "the Python function " + strings.Join(list, "")
	if len(list) > 1 {
		names = "the Python functions " + strings.Join(list, ", ")
	}
	const programs = "programs that the model has written (unsafe_code)"
	switch {
	case !r.task.Programs:
		return names, len(list) > 1
	case len(list) == 0:
		return programs, true
	}
	return names + " and " + programs, true
}

// missingFile describes a missing file of functions for an error. It is empty if there is none.
func (r *reader) missingFile() string {
	for _, f := range r.called {
		if _, err := os.Stat(f.file); err != nil {
			return fmt.Sprintf("; the file %s, which has the function %s, is missing: put it there", strconv.Quote(f.file), strconv.Quote(f.name))
		}
	}
	return ""
}
