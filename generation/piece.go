package generation

// Piece is a part of a choice, as it is generated. The pieces of a choice, one after another, are its Text, Tokens and Logprobs.
type Piece struct {
	Choice int // its index
	// Text never has a part of a stop string, or of a character. It can be behind Tokens, and is empty while it is not certain.
	Text         string
	Reasoning    string // as in Choice; the piece's Reasoning comes before its Text
	Tokens       []int32
	Logprobs     []TokenLogprob // one for each of Tokens, if the request sets Logprobs
	FinishReason FinishReason   // set in the last piece
	StopReason   string         // as in Choice
}
