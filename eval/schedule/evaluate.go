package schedule

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// Evaluator runs the evaluations of entries.
type Evaluator struct {
	Folder  string       // of the runs
	Version string       // of the program
	Note    func(string) // receives notes about the rows of tasks

	// Answer returns the function with which workers of a model answer the requests of an entry.
	// batch is the id of the batch of requests. Its error is an *UnansweredError if another attempt
	// can succeed.
	Answer func(e *Entry, model, batch string) eval.Answer
}

// UnansweredError means that the requests of a run have no answers yet.
type UnansweredError struct{ Err error }

// Error implements error.
func (e *UnansweredError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *UnansweredError) Unwrap() error { return e.Err }

// Evaluate runs an evaluation and judges it. The batch and the directory are named after the run,
// so that another attempt continues them. An error that another attempt would only repeat is
// returned as an outcome, not as an error.
func (r *Evaluator) Evaluate(ctx context.Context, e *Entry, run string) (Outcome, error) {
	outcome, err := r.judge(ctx, e, run)
	var unanswered *UnansweredError
	if err == nil || errors.As(err, &unanswered) {
		return outcome, err
	}
	return Outcome{Verdict: Error, Message: textfmt.OneLine(err.Error())}, nil
}

func (r *Evaluator) judge(ctx context.Context, e *Entry, run string) (o Outcome, err error) {
	tasks, groups, err := task.ReadAll(e.Tasks, nil)
	if err != nil {
		return o, err
	}
	settings := eval.Settings{Limit: e.Limit}
	if e.Chat {
		settings.Chat = &e.Chat
	}
	sets, err := eval.LoadAll(tasks, settings)
	if err != nil {
		return o, err
	}
	for _, line := range eval.Notes(sets) {
		r.Note(line)
	}
	if eval.Judged(sets) && e.Judge == "" {
		return o, errors.New("a task of type judge needs a second model: set \"judge\" of the entry to the model name that workers serve")
	}
	dir, made := filepath.Join(r.Folder, run), eval.Config{Limit: e.Limit, Version: r.Version, Model: e.Model}
	results, err := eval.Evaluate(ctx, dir, sets, groups, made, r.Answer(e, e.Model, "eval-"+run), r.Answer(e, e.Judge, "judge-"+run))
	if err != nil {
		return o, err
	}
	if e.Gate != nil {
		return r.gate(e.Gate, dir, run)
	}
	if text := results.Unanswered(); text != "" {
		return Outcome{Verdict: Error, Message: text}, nil
	}
	return Outcome{Verdict: Ungated}, nil
}

// gate compares a run with the baseline of its entry, and stores the verdict in the run's
// directory.
func (r *Evaluator) gate(g *Gate, dir, run string) (o Outcome, err error) {
	margin := float64(eval.OwnMargin)
	if g.Margin != nil {
		margin = *g.Margin
	}
	v, err := eval.Gate(r.Folder, g.Baseline, run, margin)
	if err == nil {
		err = v.Write(dir)
	}
	if err != nil {
		return o, err
	}
	return Outcome{Verdict: Verdict(v.Verdict), Message: v.String()}, nil
}
