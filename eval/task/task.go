// Package task reads evaluation tasks and makes the prompts of their rows. A task is a YAML file in
// the format of EleutherAI's lm-evaluation-harness ("the harness"). The package supports a part of
// that format; an error names any key or value that it does not support. The rows are a JSON Lines
// file, which the task or the user names.
package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/eval/taskcode"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Type selects how a row is scored.
type Type string

// The types.
const (
	Generate       Type = "generate_until"        // an answer is generated, and compared with the target
	MultipleChoice Type = "multiple_choice"       // the likeliest of several continuations is compared with the right one
	LogLikelihood  Type = "loglikelihood"         // the score is made from the log-probability of the target
	Perplexity     Type = "loglikelihood_rolling" // the score is made from the log-probability of a whole text
	Judge          Type = "judge"                 // an answer is generated, and a second model scores it
)

// Generates reports whether answers are generated. Otherwise texts are scored by their
// log-probabilities.
func (t Type) Generates() bool { return t == Generate || t == Judge }

// Task is an evaluation task.
type Task struct {
	Path        string                     // path of its file, or its name if it is built in
	Config      map[string]json.RawMessage // the keys of its file and of the files that it includes
	Name        string
	Version     string
	Type        Type
	Data        string // path of the file of rows; empty if the task names none
	FewShotData string // path of the file of examples; if empty, examples are other rows of Data

	NoData     error             // why dataset_kwargs gives no file of rows, although it should
	NoExamples error             // the same for the file of examples
	Fields     map[string]string // field of the JSON object in a file that has the rows, by the file's path

	Description Field // precedes every prompt
	Form
	Shot         ShotForm
	Shots        int               // number of examples
	ShotsInOrder bool              // use the first rows as examples; false: random examples for each row
	ShotSeed     uint64            // seed of the random examples
	ShotColumn   string            // column in which an example must have the same value as the row; empty to allow all examples
	Examples     []*ordered.Object // examples in the task file itself; nil if they are in a file of rows
	Splits       Splits

	Generation Generation
	Repeats    int // number of answers to each prompt
	Filters    []Pipeline
	Metrics    []Metric
	Rubric     *Rubric // nil unless the type is Judge
	Cluster    string  // column whose values group rows that are not independent; empty for none
	Margin     float64 // loss that a gate accepts
	Chat       bool    // prompts are sent as messages, through the chat template
	Programs   bool    // answers are programs, which are run
	Scoring    string  // hash of the settings and functions that score answers
	Multiturn  bool    // with Chat: each example is a message of the user and one of the assistant, as by default in the harness

	convert rowsFunction      // changes the rows of a data set; nil if they are used unchanged
	results resultsFunction   // scores rows with metrics of its own; zero if the task's metrics do
	python  *taskcode.Process // runs functions of the task; nil if it has none in Python
}

// Rows returns the rows of a data set as the task uses them: changed, or without those of other
// subjects.
func (t *Task) Rows(rows []*ordered.Object) ([]*ordered.Object, error) {
	if t.convert == nil {
		return rows, nil
	}
	return t.convert(rows)
}

// ShotForm has the fields of a Form that examples have instead of those of the rows. Missing fields
// and nil leave those of the rows.
type ShotForm struct {
	Text, Target, Choices, Prefix  Field
	TargetDelimiter, ShotDelimiter *string
}

// Splits are the names of the parts of a data set that a task uses; empty if it does not name them.
type Splits struct{ Training, Validation, Test, Shots string }

// Rows returns the split whose rows are evaluated.
func (s *Splits) Rows() string { return cmp.Or(s.Test, s.Validation) }

// Examples returns the split that examples are drawn from.
func (s *Splits) Examples() string { return cmp.Or(s.Shots, s.Training, s.Validation, s.Test) }

// Exclusive reports whether a row is never its own example. As in the harness, it may be if the
// examples' split is not named while that of the rows is.
func (s *Splits) Exclusive() bool { return s.Shots == s.Test }

// DefaultShotSeed is the harness's seed of random examples.
const DefaultShotSeed = 1234

// Generation has the settings with which answers are generated.
type Generation struct {
	Until       []string
	MaxTokens   int
	Temperature float64
	TopP        float64
	TopK        int
	Seed        *int64
	Choices     []string // texts, one of which is the answer; nil for any
	Regex       string   // expression that the whole answer matches; empty for any
}

// DefaultMaxTokens is the token limit of answers if a task sets none, as in the harness.
const DefaultMaxTokens = 256

// ErrUnsupported means that a task uses a feature of the harness that this package lacks.
var ErrUnsupported = errors.New("not supported")

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%s is %w", fmt.Sprintf(format, args...), ErrUnsupported)
}

// DefaultMargin is the loss of a score that a gate accepts if a task does not set margin.
const DefaultMargin = 0.03
