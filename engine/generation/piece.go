package generation

// Piece is a part of a choice that is being generated. The pieces of a choice, joined in order, give its Text, Reasoning, Tokens and
// Logprobs.
type Piece struct {
	Choice int // index of the choice
	// Text ends at a whole character and before anything that may become a stop string. The text of the last Tokens can therefore follow in
	// a later piece, and Text can be empty.
	Text         string
	Reasoning    string // part of the choice's reasoning, which precedes Text
	Tokens       []int32
	Logprobs     []TokenLogprob // one for each of Tokens, if the request sets Logprobs
	FinishReason FinishReason   // set in the choice's last piece
	StopReason   string         // stop string that ended the choice, if any; set in the choice's last piece
}
