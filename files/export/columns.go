package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/ingot-run/ingot/files/table"
)

// The names of the generated columns, in the order of the table.
const (
	customID         = "custom_id" // only without Options.Input
	sampleIndex      = "sample_index"
	response         = "response"
	reasoning        = "reasoning"
	toolCalls        = "tool_calls"
	finishReason     = "finish_reason"
	model            = "model"
	promptTokens     = "prompt_tokens"
	completionTokens = "completion_tokens"
	failure          = "error"
)

// Generated lists the columns that follow those of the input. A table has sample_index only if a
// row has several answers, and reasoning and tool_calls only if an answer has some.
var Generated = []table.Column{
	{Name: sampleIndex, Kind: table.Integer},
	{Name: response, Kind: table.String},
	{Name: reasoning, Kind: table.String},
	{Name: toolCalls, Kind: table.JSON},
	{Name: finishReason, Kind: table.String},
	{Name: model, Kind: table.String},
	{Name: promptTokens, Kind: table.Integer},
	{Name: completionTokens, Kind: table.Integer},
	{Name: failure, Kind: table.String},
}

// CheckColumns returns an error if an input column has the same name as a generated column with its
// prefix. fields are the columns that are made from the texts of answers.
func CheckColumns(input, fields []table.Column, prefix string) error {
	all := append(slices.Clone(fields), Generated...)
	for _, g := range all {
		name := prefix + g.Name
		if slices.ContainsFunc(input, func(c table.Column) bool { return c.Name == name }) {
			return fmt.Errorf("the input has a column %q, which is also the name of a generated column: give the generated columns a prefix, such as --column-prefix=%s",
				name, freePrefix(input, all))
		}
	}
	return nil
}

// CheckNames returns an error if names, such as those of Filter.Unique, are not all names of
// columns that a table of answers to this input can have. fields are the columns that are made from
// the texts of answers. what names the list in the error.
func CheckNames(what string, names []string, input, fields []table.Column, prefix string) error {
	all := table.Names(input)
	for _, g := range slices.Concat(fields, Generated) {
		all = append(all, prefix+g.Name)
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s: the table has no column %q: its columns are %s", what, name, table.Quoted(all))
		}
	}
	return nil
}

func freePrefix(input, generated []table.Column) string {
	for n := 1; ; n++ {
		prefix := "answer_"
		if n > 1 {
			prefix = fmt.Sprintf("answer%d_", n)
		}
		if !slices.ContainsFunc(input, func(c table.Column) bool {
			return slices.ContainsFunc(generated, func(g table.Column) bool { return c.Name == prefix+g.Name })
		}) {
			return prefix
		}
	}
}

func generated(all []*Answers) []table.Column {
	return slices.DeleteFunc(slices.Clone(Generated), func(c table.Column) bool {
		switch c.Name {
		case sampleIndex:
			return !slices.ContainsFunc(all, func(a *Answers) bool { return a.samples })
		case reasoning:
			return !slices.ContainsFunc(all, func(a *Answers) bool { return a.reasoning })
		case toolCalls:
			return !slices.ContainsFunc(all, func(a *Answers) bool { return a.toolCalls })
		}
		return false
	})
}

// sample is one answer to a row, or the row's error.
type sample struct {
	index        int
	response     json.RawMessage // text of the answer as a JSON string
	reasoning    json.RawMessage
	toolCalls    json.RawMessage // array of calls
	finishReason string
	model        string
	prompt       int           // number of prompt tokens
	completion   int           // number of generated tokens; -1 if unknown
	fields       []table.Field // columns that were made from the text
	failure      string        // why the row has no answer or, if unparsed, why the text has no fields
	unparsed     bool
}

// samplesOf returns the answers in a line. For a line with an error, it returns the error as the
// only sample. modelName is the value of the column model; empty for the model that the line names.
func samplesOf(l line, modelName string) []sample {
	if l.Error != nil {
		return []sample{{model: modelName, failure: l.Error.Code + ": " + l.Error.Message}}
	}
	body := l.Response.Body
	modelName = cmp.Or(modelName, body.Model)
	all := make([]sample, len(body.Choices))
	for i, c := range body.Choices {
		all[i] = sample{
			index: i, response: c.Message.Content, reasoning: c.Message.Reasoning, toolCalls: c.Message.ToolCalls, finishReason: c.FinishReason, model: modelName,
			prompt: body.Usage.PromptTokens, completion: body.Usage.CompletionTokens,
		}
		if c.Text != nil {
			all[i].response = c.Text
		}
		if len(all) > 1 { // usage has the sum over all answers
			all[i].completion = -1
			if len(l.Stats.ChoiceTokens) == len(all) {
				all[i].completion = l.Stats.ChoiceTokens[i]
			}
		}
	}
	return all
}

func (s *sample) value(column string) json.RawMessage {
	switch column {
	case failure:
		return textValue(s.failure)
	case model:
		return textValue(s.model)
	}
	if s.failure != "" && !s.unparsed {
		return nil
	}
	switch column {
	case sampleIndex:
		return numberValue(s.index)
	case response:
		return s.response
	case reasoning:
		return s.reasoning
	case toolCalls:
		return s.toolCalls
	case finishReason:
		return textValue(s.finishReason)
	case promptTokens:
		return numberValue(s.prompt)
	}
	if s.completion < 0 {
		return nil
	}
	return numberValue(s.completion)
}

// textValue returns a text as JSON; null if the text is empty.
func textValue(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	raw, _ := json.Marshal(s) //nolint:errchkjson // a string can always be written
	return raw
}

func numberValue(n int) json.RawMessage { return strconv.AppendInt(nil, int64(n), 10) }
