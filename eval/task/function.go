package task

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Task files of the harness name Python functions, as module.function. Those in this table are
// implemented here. A function is recognised by its name and the name of the task.

// fieldFunction computes a field of a row.
type fieldFunction func(row *ordered.Object) (ordered.Value, error)

// rowsFunction changes the rows of a data set: the key process_docs.
type rowsFunction func(rows []*ordered.Object) ([]*ordered.Object, error)

// resultsFunction scores rows with metrics of its own: the key process_results.
type resultsFunction struct {
	python  bool                                                  // the function is one in Python
	partial bool                                                  // some scores are not the harness's: if Python functions may run, they do
	metrics map[string]string                                     // aggregation of each metric
	prepare func(row *ordered.Object, p *Prompt) error            // adds to a prompt what scoring needs; nil for nothing
	score   func(row *ordered.Object, r Response) (Scores, error) // nil if another package scores the rows
}

// Scores are the scores of a row by the task's own metrics.
type Scores struct {
	Values     map[string]float64       // by metric
	Weights    map[string]float64       // by metric whose scores are weighted
	Undecided  []string                 // metrics whose value may not be the harness's
	Statistics map[string][]float64     // by metric that a Corpus computes
	Items      map[string]ordered.Value // by metric that a Python function aggregates
}

// Names returns the names of the metrics, in order.
func (s *Scores) Names() []string {
	all := map[string]bool{}
	for name := range s.Values {
		all[name] = true
	}
	for name := range s.Statistics {
		all[name] = true
	}
	for name := range s.Items {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// Response is what a model gave for a row.
type Response struct {
	Answers  []string      // after the filters, if answers are generated
	Filtered ordered.Value // the same as functions in Python get it: a list, or the only answer; nil for Answers
	Logprobs []float64     // log-probabilities of the choices or of the target
	Greedy   []bool        // whether each token of these is the likeliest; nil for whole texts
}

// Answer returns the first answer.
func (r Response) Answer() string {
	if len(r.Answers) == 0 {
		return ""
	}
	return r.Answers[0]
}

// functions are the functions that are implemented here. task and name are regular expressions of
// the whole names; "" is the name of every task. is is a fieldFunction, rowsFunction or
// resultsFunction, or a function that makes one of them from the group of name.
var functions = []struct {
	task, name string
	is         any
}{
	{"hellaswag", `utils\.process_docs`, eachRow(hellaswag)},
	{"", `preprocess_winogrande\.doc_to_text`, fieldFunction(winograndeRight)},
	{"", `preprocess_winogrande\.doc_to_target`, fieldFunction(winograndeEnd)},
	{"", `preprocess_winogrande\.doc_to_choice`, fieldFunction(winograndeBeginnings)},
	{"", `preprocess_wikitext\.wikitext_detokenizer`, fieldFunction(wikitextPage)},
	{"wikitext", `preprocess_wikitext\.process_results`, resultsFunction{metrics: metrics[Perplexity], prepare: wikitextCounted}},
	{"(leaderboard_)?ifeval", `utils\.process_results`, resultsFunction{partial: true, metrics: instructionMetrics, prepare: readInstructions}},
	{"truthfulqa_mc2", `utils\.process_results_mc2`, resultsFunction{metrics: map[string]string{"acc": "mean"}, score: truthfulMass}},
	{"truthfulqa_gen", `utils\.process_docs_gen`, eachRow(truthfulRow)},
	{"truthfulqa_gen", `utils\.process_results_gen`, resultsFunction{metrics: truthfulMetrics, score: truthfulScore}},
	{"drop", `utils\.process_docs`, eachRow(dropRow)},
	{"drop", `utils\.process_results`, resultsFunction{metrics: dropMetrics, score: dropScore}},
	{"gpqa_[a-z]+_n_shot", `utils\.process_docs`, rowsFunction(gpqaTwice)},
	{"gpqa_.*", `utils\.process_docs`, gpqa(0, withoutTitles)},
	{"leaderboard_gpqa_.*", `utils\.process_docs`, gpqa(0, withoutMarks)},
	{"mmlu_pro_.*", `utils\.doc_to_text`, fieldFunction(mmluProThinking)},
	{"mmlu_pro_.*", `utils\.fewshot_to_text`, fieldFunction(mmluProThinking)},
	{"mmlu_pro_.*", `utils\.fewshot_to_target`, fieldFunction(mmluProThoughts)},
	{"leaderboard_musr_.*", `utils\.doc_to_text`, fieldFunction(musrQuestion)},
	{"leaderboard_math_.*", `utils\.doc_to_text`, fieldFunction(mathQuestion)},
	{"leaderboard_math_.*", `utils\.process_docs`, eachRow(mathRow)},
	{"leaderboard_math_.*", `utils\.process_results`, resultsFunction{partial: true, metrics: mathMetrics, score: mathScore}},
	{"leaderboard_mmlu_pro", `utils\.doc_to_text`, fieldFunction(mmluProQuestion)},
	{"leaderboard_mmlu_pro", `utils\.doc_to_choice`, fieldFunction(mmluProLetters)},
	{"global_mmlu_full_.*", `utils\.process_(.*)`, rowsOf("subject")},
	{"global_mmlu_.*", `utils\.process_(.*)`, rowsOf("subject_category")},
	{"include_base_44_.*", `utils\.process_(.*)`, rowsOf("domain")},
	{"mmmlu_.*", `utils\.process_(.*)`, rowsOf("Subject")},
	{"mmlu_pro.*", `utils\.process_(.*)`, rowsOf("category")},
	{"mmlu_.._llama_.*", `utils\.process_docs_(.*)`, rowsOf("subtask_name")},
}

// unsupportedFunction is the error about a function that is not in the table.
func unsupportedFunction(name string) error { return unsupported("the Python function %q", name) }

// functionName returns the name of the Python function that a YAML value refers to. ok is false if
// it refers to none.
func functionName(n *yaml.Node) (name string, ok bool) {
	return n.Value, strings.HasPrefix(n.Tag, "!function")
}

// findFunction returns the function of a task that is of type T.
func findFunction[T any](r *reader, name string) T {
	found, err := knownFunction[T](r.task.Name, name)
	known, _ := any(found).(resultsFunction)
	if err == nil && (r.python == nil || !known.partial) {
		return found
	}
	file, _ := r.pythonFile(name)
	if _, missing := os.Stat(file); missing != nil && err == nil {
		return found
	}
	made, _ := pythonFunction(r.call(name), any(found), r.task).(T)
	return made
}

// knownFunction returns a function of the table.
func knownFunction[T any](task, name string) (found T, err error) {
	for _, f := range functions {
		if f.task != "" && !regexp.MustCompile("^("+f.task+")$").MatchString(task) {
			continue
		}
		groups := regexp.MustCompile("^" + f.name + "$").FindStringSubmatch(name)
		if groups == nil {
			continue
		}
		if made, ok := f.is.(func(string) T); ok {
			return made(groups[1]), nil
		}
		if found, ok := f.is.(T); ok {
			return found, nil
		}
	}
	return found, unsupportedFunction(name)
}

// eachRow returns a function that changes each row. A nil row is left out.
func eachRow(change func(row *ordered.Object) (*ordered.Object, error)) rowsFunction {
	return func(rows []*ordered.Object) ([]*ordered.Object, error) {
		var list []*ordered.Object
		for i, row := range rows {
			changed, err := change(row)
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", i+1, err)
			}
			if changed != nil {
				list = append(list, changed)
			}
		}
		return list, nil
	}
}

// rowsOf returns a function that makes a filter from the name of a subject, such as
// computer_science: it leaves the rows whose column has the subject, such as "Computer Science",
// computer_science_test.csv or mmlu_de_chat.computer_science.
func rowsOf(column string) func(subject string) rowsFunction {
	return func(subject string) rowsFunction {
		return eachRow(func(row *ordered.Object) (*ordered.Object, error) {
			value, err := columnText(row, column)
			value, _, _ = strings.Cut(value, "_test.csv")
			value, _, _ = strings.Cut(value, "_test-")
			value = value[strings.LastIndex(value, ".")+1:]
			if err != nil || subjectName.Replace(strings.ToLower(value)) != subject {
				return nil, err
			}
			return row, nil
		})
	}
}

var subjectName = strings.NewReplacer(" & ", "_", " ", "_")

// columnText returns a column's value. It returns an error if the value is not a text.
func columnText(row *ordered.Object, name string) (string, error) {
	v, ok := row.Get(name)
	if !ok {
		return "", fmt.Errorf("the row has no column %q", name)
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("column %q is not text", name)
	}
	return s, nil
}

// columnTexts returns the texts of several columns.
func columnTexts(row *ordered.Object, names ...string) ([]string, error) {
	list := make([]string, len(names))
	for i, name := range names {
		var err error
		if list[i], err = columnText(row, name); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// columnList returns a column's list.
func columnList(row *ordered.Object, name string) ([]ordered.Value, error) {
	v, ok := row.Get(name)
	if !ok {
		return nil, fmt.Errorf("the row has no column %q", name)
	}
	list, ok := v.([]ordered.Value)
	if !ok {
		return nil, fmt.Errorf("column %q is not a list", name)
	}
	return list, nil
}
