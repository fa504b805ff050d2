package generation

import "time"

// FinishReason is the reason why a choice ended, as in OpenAI's API.
type FinishReason string

// The finish reasons.
const (
	FinishStop   FinishReason = "stop"   // a stop token or a stop string was generated
	FinishLength FinishReason = "length" // the choice reached MaxTokens or the end of the context
	// FinishToolCalls replaces FinishStop if the choice has tool calls, unless the request names
	// the tool.
	FinishToolCalls FinishReason = "tool_calls"
)

// Completion is the answer to a request.
type Completion struct {
	PromptTokens []int32 // ids of the prompt
	// PromptLogprobs has one entry per prompt token, if the request sets PromptLogprobs. The first
	// entry has neither Logprob nor Top, because no token precedes it.
	PromptLogprobs []TokenLogprob
	Choices        []Choice // one for each requested choice
	Stats          Stats
}

// Choice is one generated answer.
type Choice struct {
	Text         string
	Reasoning    string     // the model's reasoning before Text, if the chat template has tags that mark reasoning
	ToolCalls    []ToolCall // calls of Request.Tools; Text has the rest of the answer
	Tokens       []int32    // ids of all generated tokens, including a stop token and the tokens of a stop string, which Text omits
	FinishReason FinishReason
	// StopReason is the stop string that ended the choice. If it is empty after FinishStop, the
	// last of Tokens is a stop id.
	StopReason string
	Logprobs   []TokenLogprob // one for each of Tokens, if the request sets Logprobs
	Times      []time.Time    // when each of Tokens was generated, if the request sets Timed; evenly spaced for steps in flight together
}

// TokenLogprob is a token with its log-probability under the model, before bias, penalties and
// temperature.
type TokenLogprob struct {
	ID      int32
	Text    string         // what the token adds to the text, or a control token's name; U+FFFD replaces incomplete characters
	Bytes   []byte         // Text as bytes, in which incomplete characters are not replaced
	Logprob float64        // natural logarithm of the probability
	Top     []TokenLogprob // the TopLogprobs most likely tokens at the same position, best first; their own Top is nil
}

// Stats has a request's counts and times.
type Stats struct {
	PromptTokens     int
	CachedTokens     int           // prompt tokens that the first choice took from the prefix cache
	CompletionTokens int           // generated tokens of all choices
	ReasoningTokens  int           // completion tokens up to the end of the reasoning, in all choices
	ResumedTokens    int           // completion tokens taken from Request.Resume; not included in the times and steps
	TTFT             time.Duration // time from the call of Generate to the first generated token
	Total            time.Duration // the duration of Generate
	Prefill          time.Duration // time from leaving the engine's queue to the first generated token
	Decode           time.Duration // time from the first generated token to the last
	Steps            int           // number of steps that computed tokens of this request
	DraftTokens      int           // tokens that speculative decoding drafted
	AcceptedTokens   int           // drafted tokens that were accepted
	MaskedTokens     int           // completion tokens that were drawn among those that the constraint allows
	ForcedTokens     int           // completion tokens that the constraint forced, which were appended without a draw
	MaskTime         time.Duration // processor time that computed which tokens the constraint allows; mostly while steps run
	BatchMean        float64       // mean number of sequences per step, over the steps counted in Steps; includes the request's own
}

// Piece is a part of a choice that is being generated. The pieces of a choice, joined in order,
// give its Text, Reasoning, ToolCalls, Tokens and Logprobs.
type Piece struct {
	Choice int
	// Text ends at a whole character and before anything that may become a stop string. The text of
	// the last Tokens can therefore follow in a later piece, and Text can be empty.
	Text         string
	Reasoning    string          // part of the choice's reasoning, which precedes Text
	ToolCalls    []ToolCallDelta // parts of the choice's calls, in order
	Tokens       []int32
	Logprobs     []TokenLogprob // one for each of Tokens, if the request sets Logprobs
	FinishReason FinishReason   // set in the choice's last piece
	StopReason   string         // stop string that ended the choice, if any; set in the choice's last piece
}
