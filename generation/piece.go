package generation

// Piece is a part of a choice that is being generated. All pieces of a choice together are its Text, Reasoning, Tokens and Logprobs.
type Piece struct {
	Choice int // index of the choice
	// Text has whole characters, and no part of a stop string. It can lag behind Tokens, and is empty until more text is certain.
	Text         string
	Reasoning    string // as in Choice; precedes Text
	Tokens       []int32
	Logprobs     []TokenLogprob // one for each of Tokens, if the request sets Logprobs
	FinishReason FinishReason   // set in the last piece
	StopReason   string         // as in Choice
}
