package task

import (
	"cmp"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// generation reads the key generation_kwargs.
func (r *reader) generation(n *yaml.Node) error {
	g := &r.task.Generation
	err := storeAll(n, "the setting", map[string]any{
		"max_gen_toks": &g.MaxTokens, "max_tokens": &g.MaxTokens, "max_new_tokens": &g.MaxTokens,
		"temperature": &g.Temperature, "top_p": &g.TopP, "top_k": &g.TopK, "seed": &g.Seed,
		"regex": &g.Regex, "choices": func(value *yaml.Node) (err error) {
			if g.Choices, err = texts(value); err == nil && len(g.Choices) == 0 {
				err = errors.New("the list is empty")
			}
			return err
		},
		"do_sample": nil, // ignored: the temperature decides whether tokens are sampled
		"num_beams": func(value *yaml.Node) error {
			if value.Value != "1" {
				return unsupported("a search with %s beams", value.Value)
			}
			return nil
		},
		"until": func(value *yaml.Node) (err error) {
			r.until = true
			g.Until, err = texts(value)
			return err
		},
	})
	return cmp.Or(err, g.check())
}

// maxStops and maxRepeats are the maximum numbers of stop strings and of answers of a request.
const (
	maxStops   = 64
	maxRepeats = 128
)

// check returns an error if no request can have the settings.
func (g *Generation) check() error {
	switch {
	case !(g.Temperature >= 0 && g.Temperature <= 2): // NaN is neither
		return fmt.Errorf("temperature is %v, but must be a number from 0 to 2", g.Temperature)
	case !(g.TopP >= 0 && g.TopP <= 1):
		return fmt.Errorf("top_p is %v, but must be a number from 0 to 1", g.TopP)
	case len(g.Until) > maxStops:
		return fmt.Errorf("until has %d texts, more than %d", len(g.Until), maxStops)
	}
	return nil
}

// texts reads a text or a list of texts.
func texts(n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}, nil
	}
	var list []string
	err := n.Decode(&list)
	return list, err
}

// checkForm checks the settings that give the form of an answer.
func (t *Task) checkForm() error {
	choices, regex := len(t.Generation.Choices) > 0, t.Generation.Regex != ""
	switch {
	case choices && regex:
		return errors.New(`generation_kwargs has "choices" and "regex": give one`)
	case (choices || regex) && !t.Type.Generates():
		return fmt.Errorf(`a task of type %s generates no answers: remove "choices" and "regex" from generation_kwargs`, t.Type)
	}
	return nil
}
