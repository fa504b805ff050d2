package openai

import "github.com/ingot-run/ingot/engine/generation"

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
