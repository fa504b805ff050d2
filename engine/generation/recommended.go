package generation

import (
	"strconv"
	"strings"
)

// Recommended are the settings that a model's makers recommend for sampling. They are the defaults
// of requests that set no sampling option. The zero value recommends nothing.
type Recommended struct {
	Sampling Sampling // without bias and seed
	Source   string   // where the settings come from
}

// String returns the settings that have an effect, in the form in which results and pins name them,
// such as "temperature=0.6,top_p=0.95,top_k=20". It is empty if the settings are those of a request
// that sets nothing: temperature 1 without limits and penalties.
func (r Recommended) String() string {
	s := r.Sampling
	if r.Source == "" {
		return ""
	}
	var parts []string
	add := func(name string, v, neutral float64) {
		if v != neutral {
			parts = append(parts, name+"="+strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	add("top_p", s.TopP, unlimited(s.TopP))
	add("top_k", float64(s.TopK), 0)
	add("min_p", s.MinP, 0)
	add("repetition_penalty", s.RepetitionPenalty, unlimited(s.RepetitionPenalty))
	add("presence_penalty", s.PresencePenalty, 0)
	add("frequency_penalty", s.FrequencyPenalty, 0)
	if len(parts) == 0 && s.Temperature == 1 {
		return ""
	}
	temperature := "temperature=" + strconv.FormatFloat(s.Temperature, 'g', -1, 64)
	return strings.Join(append([]string{temperature}, parts...), ",")
}

// unlimited returns the value without effect of a setting for which both 0 and 1 have none.
func unlimited(v float64) float64 {
	if v == 0 {
		return 0
	}
	return 1
}
