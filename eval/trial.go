package eval

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/eval/task"
)

// maxTried is the maximum number of rows that try scores.
const maxTried = 3

// try filters and scores made-up answers to the first rows if functions of the task do that. It
// returns an error if all of them fail: the answers of a model would fail too.
func (s *Set) try() error {
	if !s.Tried() {
		return nil
	}
	return s.Trial(func() (failed error) {
		for i := range s.Items[:min(maxTried, len(s.Items))] {
			err := s.tryRow(&s.Items[i])
			if err == nil {
				return nil
			}
			failed = cmp.Or(failed, fmt.Errorf("score a made-up answer to row %d of %s: %w", s.Items[i].Number+1, s.Data, err))
		}
		return failed
	})
}

// tryRow scores made-up answers to a row: the target, or the empty text. An error means that both
// fail.
func (s *Set) tryRow(item *Item) (failed error) {
	if !s.Type.Generates() && item.Prompt.Score == nil {
		return nil
	}
	if !s.Type.Generates() {
		r := task.Response{}
		for range max(1, len(item.Prompt.Choices)) {
			r.Logprobs, r.Greedy = append(r.Logprobs, float64(-1-len(r.Logprobs))), append(r.Greedy, r.Greedy == nil)
		}
		if s.Type == task.Perplexity {
			r.Greedy = nil
		}
		_, err := item.Prompt.Score(r)
		return err
	}
	texts := []string{""}
	if len(item.Prompt.Targets) > 0 && !s.Programs { // a target might be a program that nobody has checked
		texts = []string{item.Prompt.Targets[0], ""}
	}
	for _, text := range texts {
		err := s.tryAnswer(item, text)
		if err == nil {
			return nil
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// tryAnswer filters and scores a made-up answer.
func (s *Set) tryAnswer(item *Item, text string) error {
	base := s.sample(item)
	for range s.Repeats {
		base.Responses = append(base.Responses, text)
	}
	for i := range s.Filters {
		if s.Type == task.Judge {
			if _, err := s.Filters[i].Apply(base.Responses, &item.Prompt); err != nil {
				return err
			}
			continue
		}
		if tried := s.generated(base, item, &s.Filters[i], nil); tried.Failed != "" {
			return errors.New(tried.Failed)
		}
	}
	return nil
}
