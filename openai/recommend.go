package openai

import "github.com/ingot-run/ingot/engine/generation"

// samplingFields are the fields that the settings of a model's makers replace together: a request
// that sets one of them gets the fixed defaults for the others.
var samplingFields = []string{
	"temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
}

// Recommend makes the settings that a model's makers recommend those of the request, unless the
// request sets a sampling option itself. It reports whether it has set them.
func (r *Request) Recommend(m generation.Recommended) bool {
	if r.sampling || m.String() == "" {
		return false
	}
	s := &r.settings.Sampling
	bias := s.LogitBias
	*s = m.Sampling
	s.LogitBias = bias
	return true
}
