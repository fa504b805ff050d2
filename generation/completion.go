package generation

import "time"

// FinishReason is why a choice ended, in OpenAI's words.
type FinishReason string

// The finish reasons.
const (
	FinishStop   FinishReason = "stop"   // a stop id or a stop string
	FinishLength FinishReason = "length" // MaxTokens or the end of the context
)

// Completion is what a request became.
type Completion struct {
	PromptTokens []int32
	// PromptLogprobs has one entry a prompt token, where asked for. The first has neither Logprob nor Top, since nothing
	// comes before it.
	PromptLogprobs []TokenLogprob
	Choices        []Choice // Request.N
	Stats          Stats
}

// Choice is one generated answer.
type Choice struct {
	Text         string
	Tokens       []int32 // all generated ids, among them a stop id and those of a stop string, which Text leaves out
	FinishReason FinishReason
	// StopReason is the stop string that ended the choice. Empty after FinishStop, the last of Tokens is a stop id.
	StopReason string
	Logprobs   []TokenLogprob // one a token of Tokens, where asked for
	Times      []time.Time    // likewise; tokens of one step have one time, and steps that are waited for together share it evenly
}

// TokenLogprob is a token with its log-probability under the model, before bias, penalties and temperature.
type TokenLogprob struct {
	ID      int32
	Text    string // may hold U+FFFD where the token is part of a character; Bytes is exact
	Bytes   []byte // the text's, or those of the name of a control token
	Logprob float64
	Top     []TokenLogprob // most likely first, without Top of their own
}

// Stats is a request's figures.
type Stats struct {
	PromptTokens     int
	CachedTokens     int           // prompt tokens that were found in the cache and not computed
	CompletionTokens int           // over all choices
	TTFT             time.Duration // from the call of Generate to the first generated token
	Total            time.Duration // of the call
	Prefill          time.Duration // from admission to the first generated token
	Decode           time.Duration // from the first generated token to the last
	Steps            int           // steps that the request took part in
	DraftTokens      int
	AcceptedTokens   int
	BatchMean        float64 // mean number of sequences in its steps, its own among them
}
