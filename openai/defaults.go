package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// DefaultsID identifies the defaults of all settings of a request. Its 8 hex digits change when any default changes.
var DefaultsID = sync.OnceValue(func() string {
	text := ""
	for endpoint, body := range map[Endpoint]string{
		Chat:        `{"messages":[{"role":"user","content":""}]}`,
		Completions: `{"prompt":""}`,
	} {
		r, err := ParseRequest(endpoint, []byte(body))
		if err != nil {
			panic(err) // the body is valid
		}
		s := r.settings
		part := fmt.Sprintf("%s %+v %d %d %d %v %v;", endpoint, s.Sampling, s.N, s.MaxTokens, s.MinTokens, s.IgnoreEOS, s.Stop)
		if endpoint == Chat {
			text = part + text
		} else {
			text += part
		}
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
})
