package generation

import "time"

// FinishReason is the reason why a choice ended, as OpenAI names it.
type FinishReason string

// The finish reasons.
const (
	FinishStop   FinishReason = "stop"   // a stop id or a stop string
	FinishLength FinishReason = "length" // MaxTokens or the end of the context
)

// Completion is the answer to a request.
type Completion struct {
	PromptTokens []int32
	// PromptLogprobs has one entry a prompt token, if the request asks for them. The first entry has neither Logprob nor Top,
	// because no token precedes it.
	PromptLogprobs []TokenLogprob
	Choices        []Choice // Request.N of them
	Stats          Stats
}

// Choice is one generated answer.
type Choice struct {
	Text         string
	Tokens       []int32 // all generated ids, including a stop id and those of a stop string, which Text leaves out
	FinishReason FinishReason
	// StopReason is the stop string that ended the choice. If it is empty after FinishStop, the last of Tokens is a stop id.
	StopReason string
	Logprobs   []TokenLogprob // one for each of Tokens, if the request asks for them
	Times      []time.Time    // one for each of Tokens; steps in flight together divide their time evenly
}

// TokenLogprob is a token with its log-probability under the model, before bias, penalties and temperature.
type TokenLogprob struct {
	ID      int32
	Text    string // has U+FFFD if the token is part of a character; Bytes is exact
	Bytes   []byte // of the text; for a control token, of its name
	Logprob float64
	Top     []TokenLogprob // the most likely tokens, best first; their own Top is nil
}

// Stats is a request's figures.
type Stats struct {
	PromptTokens     int
	CachedTokens     int           // prompt tokens found in the cache and not computed
	CompletionTokens int           // over all choices
	ResumedTokens    int           // those of them that are from Request.Resume; times and steps are of the others
	TTFT             time.Duration // from the call of Generate to the first generated token
	Total            time.Duration // of the call
	Prefill          time.Duration // from admission to the first generated token
	Decode           time.Duration // from the first generated token to the last
	Steps            int           // steps with tokens of this request
	DraftTokens      int
	AcceptedTokens   int
	BatchMean        float64 // mean number of sequences in its steps, including its own
}
