package generation

import (
	"hash/fnv"
	"time"
)

// Progress has the tokens that a request has generated so far. An equal request can resume from it
// on the same model and kind of backend. The result is then the same as without the interruption,
// since every token depends only on the request and the tokens before it.
type Progress struct {
	Prompt  uint64    // HashPrompt of the prompt's ids
	Choices [][]int32 // generated token ids of each choice
}

// Tokens returns the number of generated tokens of all choices.
func (p *Progress) Tokens() (n int) {
	for _, ids := range p.Choices {
		n += len(ids)
	}
	return n
}

// Fits reports whether a request with the given prompt and number of choices can resume from p.
// vocab is the number of tokens of the vocabulary. Fits does not check that the model would
// generate the ids in p.
func (p *Progress) Fits(prompt []int32, choices, vocab int) bool {
	if len(p.Choices) != choices || p.Prompt != HashPrompt(prompt) {
		return false
	}
	for _, ids := range p.Choices {
		for _, id := range ids {
			if id < 0 || int(id) >= vocab {
				return false
			}
		}
	}
	return true
}

// HashPrompt returns the hash of a prompt's ids for Progress.Prompt. It is the same in every
// process.
func HashPrompt(ids []int32) uint64 {
	h := fnv.New64a()
	for _, id := range ids {
		h.Write([]byte{byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)})
	}
	return h.Sum64()
}

// Reporting sets how an engine reports the progress of a request.
type Reporting struct {
	// Every is the minimum time before the first report and between two reports.
	Every time.Duration
	// To receives a copy of all tokens generated so far. The engine calls it between two steps, so
	// it must return at once. The engine may call it once more after Generate has returned.
	To func(Progress)
}
