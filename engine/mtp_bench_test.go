package engine_test

import (
	"fmt"
	"testing"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/generation"
)

func TestXMTP(t *testing.T) {
	for _, streams := range []int{1, 2, 4} {
		out := ""
		for range 12 {
			e := openOn(t, "../models/tiny-glm.q8_0.gguf", backendOf(t, 1), engine.Options{Draft: engine.DraftMTP, MaxSequences: 8})
			c := generate(t, e, generation.Request{Text: "Once upon a time, there was a little girl who lived in a house near the woods. One day", N: streams, MaxTokens: 200, IgnoreEOS: true})
			s := e.Snapshot()
			out += fmt.Sprintf(" %d/%d", s.DraftTokens, s.AcceptedTokens)
			_ = c
			e.Close()
		}
		t.Log(streams, "streams:", out)
	}
}
