package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"sync"
)

// DefaultsID identifies the defaults of all settings of a request. Its 8 hex digits change when any
// default changes.
var DefaultsID = sync.OnceValue(func() string {
	text := ""
	for _, of := range []struct {
		endpoint Endpoint
		body     string
	}{
		{Chat, `{"messages":[{"role":"user","content":""}]}`},
		{Completions, `{"prompt":""}`},
	} {
		r, _ := ParseRequest(of.endpoint, []byte(of.body)) // these bodies have the required fields and no others, so they are valid
		s, d := r.settings, r.settings.Sampling
		text += fmt.Sprintf("%s {Temperature:%v TopK:%v TopP:%v MinP:%v RepetitionPenalty:%v PresencePenalty:%v FrequencyPenalty:%v LogitBias:%v Seed:%v} %d %d %d %v %v;",
			of.endpoint, d.Temperature, d.TopK, d.TopP, d.MinP, d.RepetitionPenalty, d.PresencePenalty, d.FrequencyPenalty, d.LogitBias, d.Seed,
			s.N, s.MaxTokens, s.MinTokens, s.IgnoreEOS, s.Stop)
		// A field that was added later changes the id only if its default has an effect.
		d.Temperature, d.TopP, d.RepetitionPenalty = 0, 0, 0
		if !reflect.ValueOf(d).IsZero() {
			text += fmt.Sprintf("%+v", d)
		}
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
})
