package batch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ingot-run/ingot/openai"
)

// BenchmarkValidate measures the validation of input lines.
func BenchmarkValidate(b *testing.B) {
	const n = 1000
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"custom_id":"row-%d","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[`+
			`{"role":"user","content":"%s"}],"max_tokens":48}}`+"\n", i, strings.Repeat("word ", 200))
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		v := validation{endpoint: openai.Chat, models: []string{"m"}}
		if err := v.read(b.Context(), strings.NewReader(text.String())); err != nil || len(v.faults) > 0 {
			b.Fatal(err, v.faults)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
