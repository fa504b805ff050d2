package openai

import (
	"math"
	"slices"
)

// Field is a field of a request that reaches the engine or the chat template. Everything that
// depends on a field reads its row in the table: the check of requests, errors about unknown
// fields, the flags with which a run sets defaults, and the check of serve/openapi.yaml.
type Field struct {
	Name      string
	Kind      Kind
	Only      Endpoint // the only endpoint with this field; empty if both have it
	Low, High float64  // range of a number; both are 0 for no limits
	Above     bool     // a number must be above Low
	Default   float64  // value of an absent number
	Aliases   []string // names of the field in other programs
	Override  string   // field with the same meaning, which takes precedence
	Help      string   // describes the flag with which a run sets a default for all rows; empty if there is no such flag

	// strict makes a name that differs in only one or two characters an error even if unknown
	// fields are ignored.
	strict bool
	form   bool // the field gives the form of the answer
	// sampling is set for the fields that the settings of a model's makers replace together: a
	// request that sets one of them gets the fixed defaults for the others.
	sampling bool
	into     func(*Request) any // *float64, *int, *bool or *string that gets the value; nil if read is set
	read     func(*Request, *object, *Field)
}

// Kind is the type of a field's values.
type Kind int

// The kinds.
const (
	Number Kind = iota
	Integer
	Boolean
	String
	Strings // a string or an array of strings
	Integers
	Object
	Array
	Mixed // values of several types
)

// NoLimit is the High of a field without a maximum.
const NoLimit = math.MaxInt32

// fields is the table of all fields. Requests are read, and defaults are added to rows, in this
// order.
var fields = []*Field{
	{Name: "model", Kind: String, into: func(r *Request) any { return &r.model }},
	{Name: "messages", Kind: Array, Only: Chat, read: (*Request).readMessages},
	{Name: "prompt", Kind: Mixed, Only: Completions, read: (*Request).readPrompts},

	{
		Name: "max_tokens", Kind: Integer, High: NoLimit, Aliases: []string{"max_new_tokens", "n_predict"}, Override: "max_completion_tokens",
		Help: "maximum number of tokens of an answer", strict: true, read: (*Request).readMaxTokens,
	},
	{
		Name: "max_completion_tokens", Kind: Integer, Only: Chat, Low: 1, High: NoLimit, strict: true,
		into: func(r *Request) any { return &r.settings.MaxTokens },
	},
	{
		Name: "temperature", Kind: Number, High: 2, Default: 1, Help: "0 to 2; 0 always takes the most probable token", strict: true,
		sampling: true, into: func(r *Request) any { return &r.settings.Sampling.Temperature },
	},
	{
		Name: "top_p", Kind: Number, High: 1, Default: 1,
		Help:     "sample from the most probable tokens whose probabilities add up to this, 0 to 1",
		sampling: true, into: func(r *Request) any { return &r.settings.Sampling.TopP },
	},
	{
		Name: "top_k", Kind: Integer, Low: -1, High: NoLimit, Help: "sample from this number of the most probable tokens",
		sampling: true, into: func(r *Request) any { return &r.settings.Sampling.TopK },
	},
	{
		Name: "min_p", Kind: Number, High: 1,
		Help:     "sample from tokens with at least this share of the most probable token's probability, 0 to 1",
		sampling: true, into: func(r *Request) any { return &r.settings.Sampling.MinP },
	},
	{
		Name: "n", Kind: Integer, Low: 1, High: 128, Default: 1, Help: "answers per row",
		into: func(r *Request) any { return &r.settings.N },
	},
	{Name: "best_of", Kind: Integer, Low: 1, High: 128, read: (*Request).checkBestOf},
	{Name: "seed", Kind: Integer, Help: "seed of the run: each row without a seed gets one that is computed from it and the row's number", read: (*Request).readSeed},
	{
		Name: "stop", Kind: Strings, Aliases: []string{"stop_sequences"}, Help: "end an answer before `TEXT`; can be repeated",
		read: (*Request).readStop,
	},
	{Name: "stop_token_ids", Kind: Integers, Help: "end an answer at these tokens", strict: true, read: (*Request).readStopIDs},
	{
		Name: "min_tokens", Kind: Integer, High: NoLimit, Help: "minimum number of tokens of an answer", strict: true,
		into: func(r *Request) any { return &r.settings.MinTokens },
	},
	{
		Name: "ignore_eos", Kind: Boolean, Help: "continue after the end-of-sequence token", strict: true,
		into: func(r *Request) any { return &r.settings.IgnoreEOS },
	},
	{
		Name: "presence_penalty", Kind: Number, Low: -2, High: 2, Help: "-2 to 2", strict: true,
		sampling: true, into: func(r *Request) any { return &r.settings.Sampling.PresencePenalty },
	},
	{
		Name: "frequency_penalty", Kind: Number, Low: -2, High: 2, Help: "-2 to 2", strict: true,
		sampling: true, into: func(r *Request) any { return &r.settings.Sampling.FrequencyPenalty },
	},
	{
		Name: "repetition_penalty", Kind: Number, Above: true, High: 100, Default: 1, Aliases: []string{"repeat_penalty"},
		Help: "1 for no penalty", strict: true,
		sampling: true, into: func(r *Request) any { return &r.settings.Sampling.RepetitionPenalty },
	},
	{Name: "logit_bias", Kind: Object, Help: `such as {"50": -100}`, strict: true, read: (*Request).readLogitBias},
	{
		Name: "logprobs", Kind: Boolean, Only: Chat, Help: "add the log-probability of each token", strict: true,
		into: func(r *Request) any { return &r.settings.Logprobs },
	},
	{Name: "logprobs", Kind: Integer, Only: Completions, High: 20, strict: true, read: (*Request).readLogprobs},
	{
		Name: "top_logprobs", Kind: Integer, Only: Chat, High: 20, strict: true,
		Help: "add the log-probabilities of this number of most probable tokens, 0 to 20",
		into: func(r *Request) any { return &r.settings.TopLogprobs },
	},
	{
		Name: "return_token_ids", Kind: Boolean, Help: "add token ids", strict: true,
		into: func(r *Request) any { return &r.tokenIDs },
	},
	{Name: "echo", Kind: Boolean, Only: Completions, into: func(r *Request) any { return &r.echo }},
	{Name: "prefix_token", Kind: Boolean, Only: Completions, into: func(r *Request) any { return &r.settings.Prefix }},
	{
		Name: noSpecial, Kind: Boolean, strict: true,
		Help: "texts of control tokens, such as <|im_end|>, are ordinary text in messages and prompts (default true for columns of tables)",
		into: func(r *Request) any { return &r.settings.Literal },
	},
	{Name: literalRanges, Kind: Array, Only: Completions, strict: true, read: (*Request).readLiteral},

	// The form of the answer: OpenAI's field, vLLM's, llama.cpp's and Ollama's.
	{Name: "response_format", Kind: Object, strict: true, form: true, read: byName((*Request).readResponseFormat)},
	{Name: "structured_outputs", Kind: Object, strict: true, form: true, read: byName((*Request).readStructuredOutputs)},
	{Name: "guided_json", Kind: Mixed, strict: true, form: true, read: byName((*Request).readSchemaOrText)},
	{Name: "guided_regex", Kind: String, strict: true, form: true, read: byName((*Request).readRegex)},
	{Name: "guided_choice", Kind: Array, strict: true, form: true, read: byName((*Request).readChoices)},
	{Name: "guided_grammar", Kind: String, strict: true, form: true, read: byName((*Request).readGrammar)},
	{Name: "json_schema", Kind: Mixed, form: true, read: byName((*Request).readSchemaOrText)},
	{Name: "grammar", Kind: String, form: true, read: byName((*Request).readOptionalGrammar)},
	{Name: "format", Kind: Mixed, form: true, read: byName((*Request).readFormat)},

	{Name: "tools", Kind: Array, Only: Chat, read: (*Request).readTools},
	{Name: "tool_choice", Kind: Mixed, Only: Chat, read: (*Request).readToolChoice},
	{Name: "parallel_tool_calls", Kind: Boolean, Only: Chat, read: (*Request).readParallel},
	{Name: "documents", Kind: Array, Only: Chat, read: (*Request).readVariable},
	{
		Name: "reasoning_effort", Kind: String, Only: Chat, Help: "such as low, for chat templates that read it",
		read: (*Request).readVariable,
	},
	{Name: "add_generation_prompt", Kind: Boolean, Only: Chat, strict: true, read: (*Request).readVariable},
	{
		Name: "enable_thinking", Kind: Boolean, Only: Chat, Help: "for chat templates that read it",
		read: (*Request).readVariable,
	},
	{
		Name: continueFinal, Kind: Boolean, Only: Chat, Help: "continue the chat's last message, which is the assistant's", strict: true,
		read: (*Request).readContinued,
	},
	{Name: "chat_template_kwargs", Kind: Object, Only: Chat, strict: true, read: (*Request).readTemplateSettings},
}

// Fields returns the fields of an endpoint.
func Fields(e Endpoint) []*Field {
	return slices.DeleteFunc(slices.Clone(fields), func(f *Field) bool { return !f.on(e) })
}

// Named reports whether the field, or the one that overrides it, has the given name or alias.
func (f *Field) Named(name string) bool {
	return name == f.Name || name == f.Override && name != "" || slices.Contains(f.Aliases, name)
}

// Settles reports whether a request that has the field with the given name needs no default for f:
// it is f, or both give the form of the answer.
func (f *Field) Settles(name string) bool {
	return f.Named(name) || f.form && slices.ContainsFunc(fields, func(other *Field) bool { return other.form && other.Name == name })
}

// GivesForm reports whether the field gives the form of the answer.
func (f *Field) GivesForm() bool { return f.form }

func (f *Field) on(e Endpoint) bool { return f.Only == "" || f.Only == e }

func (f *Field) readFrom(o *object, r *Request) {
	if f.read != nil {
		f.read(r, o, f)
		return
	}
	switch v := f.into(r).(type) {
	case *float64:
		*v = o.number(f.Name, f.Low, f.High, f.Default)
		if f.Above && *v == f.Low {
			o.fail(CodeInvalidValue, "%q must be greater than %v", o.named(f.Name), f.Low)
		}
	case *int:
		if n, ok := o.integer(f.Name, int64(f.Low), int64(f.High)); ok {
			*v = int(n)
		} else if f.Default != 0 {
			*v = int(f.Default)
		}
	case *bool:
		*v = o.boolean(f.Name)
	case *string:
		*v, _ = o.text(f.Name)
	}
}
