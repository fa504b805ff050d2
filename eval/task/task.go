// Package task reads evaluation tasks and makes the prompts of their rows. A task is a YAML file in the format of EleutherAI's
// lm-evaluation-harness, of which it takes the part that the package documents; anything else in a file is refused by name. The rows
// are a JSON Lines file, which the task names or the user gives.
package task

import (
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/ordered"
)

// Type is how a row is scored.
type Type string

// The types.
const (
	Generate       Type = "generate_until"        // an answer is generated, and compared with the target
	MultipleChoice Type = "multiple_choice"       // the likeliest of several continuations is compared with the right one
	LogLikelihood  Type = "loglikelihood"         // the probability of the target
	Perplexity     Type = "loglikelihood_rolling" // the probability of a whole text
	Judge          Type = "judge"                 // an answer is generated, and scored by a second model
)

// Generates reports whether answers are generated. Otherwise texts are scored by their log-probabilities.
func (t Type) Generates() bool { return t == Generate || t == Judge }

// Task is an evaluation task.
type Task struct {
	Path        string // path of its file, or its name if it is built in
	Name        string
	Version     string
	Type        Type
	Data        string // the file of its rows; empty if the task does not name one
	FewShotData string // the file of its examples; empty for the file of its rows, whose rows are then not their own examples

	Description     Field             // precedes every prompt
	Text            Field             // the prompt
	Target          Field             // the expected answer: a text, a list of accepted ones, or the number of a choice
	Choices         Field             // the continuations of MultipleChoice
	TargetDelimiter string            // between prompt and target
	ShotDelimiter   string            // between examples
	Shots           int               // number of examples
	ShotsInOrder    bool              // the first rows are the examples; otherwise each row has random ones
	ShotSeed        uint64            // chooses the random ones
	ShotColumn      string            // column in which examples have the row's value; empty for any examples
	Examples        []*ordered.Object // the examples that the task itself has; nil if they are in a file

	Generation Generation
	Repeats    int // answers to each prompt
	Filters    []Pipeline
	Metrics    []Metric
	Rubric     *Rubric // of Judge
	Cluster    string  // column whose values group rows that are not independent; empty for none
	Margin     float64 // loss that a gate accepts
	Chat       bool    // prompts are sent as a user's message

	convert func(row *ordered.Object) *ordered.Object  // adds columns to a row; nil for none
	prepare func(row *ordered.Object, p *Prompt) error // reads what else scores need; nil for nothing
}

// Generation is the settings of Generate.
type Generation struct {
	Until       []string
	MaxTokens   int
	Temperature float64
	TopP        float64
	TopK        int
	Seed        *int64
}

// DefaultMaxTokens is the limit of an answer whose task names none; the harness has the same.
const DefaultMaxTokens = 256

// ErrUnsupported is wrapped by the errors of tasks that need something that the package does not have.
var ErrUnsupported = errors.New("not supported")

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrUnsupported)
}

// DefaultMargin is the loss of a score that a gate accepts if a task does not set margin.
const DefaultMargin = 0.01
