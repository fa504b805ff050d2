package generation

import "time"

// FinishReason is the reason why a choice ended, as in OpenAI's API.
type FinishReason string

// The finish reasons.
const (
	FinishStop   FinishReason = "stop"   // a stop token or a stop string was generated
	FinishLength FinishReason = "length" // the choice reached MaxTokens or the end of the context
)

// Completion is the answer to a request.
type Completion struct {
	PromptTokens []int32
	// PromptLogprobs has one entry per prompt token, if the request sets PromptLogprobs. The first entry has neither Logprob nor Top,
	// because no token precedes it.
	PromptLogprobs []TokenLogprob
	Choices        []Choice // one for each requested choice
	Stats          Stats
}

// Choice is one generated answer.
type Choice struct {
	Text         string
	Reasoning    string  // the model's reasoning before Text, if the chat template has tags that mark reasoning
	Tokens       []int32 // ids of all generated tokens, including a stop token and the tokens of a stop string, which Text omits
	FinishReason FinishReason
	// StopReason is the stop string that ended the choice. If it is empty after FinishStop, the last of Tokens is a stop id.
	StopReason string
	Logprobs   []TokenLogprob // one for each of Tokens, if the request sets Logprobs
	Times      []time.Time    // one for each of Tokens; steps that were in flight together share their time evenly
}

// TokenLogprob is a token with its log-probability under the model, before bias, penalties and temperature.
type TokenLogprob struct {
	ID      int32
	Text    string // U+FFFD stands for an incomplete character; Bytes is exact
	Bytes   []byte // bytes of the text; for a control token, of its name
	Logprob float64
	Top     []TokenLogprob // the most likely tokens, best first; their own Top is nil
}

// Stats has a request's counts and times.
type Stats struct {
	PromptTokens     int
	CachedTokens     int           // prompt tokens that were taken from the prefix cache
	CompletionTokens int           // generated tokens of all choices
	ReasoningTokens  int           // completion tokens up to the end of the reasoning
	ResumedTokens    int           // completion tokens taken from Request.Resume; not included in the times and steps
	TTFT             time.Duration // time from the call of Generate to the first generated token
	Total            time.Duration // the duration of Generate
	Prefill          time.Duration // time from admission to the first generated token
	Decode           time.Duration // time from the first generated token to the last
	Steps            int           // number of steps that computed tokens of this request
	DraftTokens      int
	AcceptedTokens   int
	BatchMean        float64 // mean number of sequences in these steps, including the request's own
}
