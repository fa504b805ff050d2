package generation

import "time"

// FinishReason is the reason why a choice ended, under OpenAI's name.
type FinishReason string

// The finish reasons.
const (
	FinishStop   FinishReason = "stop"   // a stop id or a stop string
	FinishLength FinishReason = "length" // MaxTokens or the end of the context
)

// Completion is the answer to a request.
type Completion struct {
	PromptTokens []int32
	// PromptLogprobs has one entry per prompt token, if the request sets PromptLogprobs. The first entry has neither Logprob nor Top,
	// because no token precedes it.
	PromptLogprobs []TokenLogprob
	Choices        []Choice // as many as Request.N requests
	Stats          Stats
}

// Choice is one generated answer.
type Choice struct {
	Text         string
	Reasoning    string  // what the model thought before, if the answer is to a chat whose template has tags for it
	Tokens       []int32 // all generated ids; unlike Text, they include a stop id and the ids of a stop string
	FinishReason FinishReason
	// StopReason is the stop string that ended the choice. If it is empty after FinishStop, the last of Tokens is a stop id.
	StopReason string
	Logprobs   []TokenLogprob // one for each of Tokens, if the request sets Logprobs
	Times      []time.Time    // one for each of Tokens; the time of steps that were in flight together is divided evenly
}

// TokenLogprob is a token with its log-probability under the model, before bias, penalties and temperature.
type TokenLogprob struct {
	ID      int32
	Text    string // has U+FFFD if the token is only a part of a character; Bytes is exact
	Bytes   []byte // bytes of the text; for a control token, bytes of its name
	Logprob float64
	Top     []TokenLogprob // the most likely tokens, best first; their own Top is nil
}

// Stats is a request's figures.
type Stats struct {
	PromptTokens     int
	CachedTokens     int           // prompt tokens found in the cache and not computed
	CompletionTokens int           // generated tokens of all choices
	ReasoningTokens  int           // of these, tokens up to the end of the reasoning
	ResumedTokens    int           // completion tokens that come from Request.Resume; times and steps do not include them
	TTFT             time.Duration // time from the call of Generate to the first generated token
	Total            time.Duration // the duration of Generate
	Prefill          time.Duration // from admission to the first generated token
	Decode           time.Duration // from the first generated token to the last
	Steps            int           // steps with tokens of this request
	DraftTokens      int
	AcceptedTokens   int
	BatchMean        float64 // mean number of sequences in the request's steps, including its own
}
