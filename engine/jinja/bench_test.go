package jinja

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// chatML is a template for ChatML, a simple format that many models use.
const chatML = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// tenMessages returns a chat without tools.
func tenMessages(tb testing.TB) *ordered.Object {
	tb.Helper()
	turn := `{"role":"user","content":"What is the capital of the country that borders France and Portugal?"},` +
		`{"role":"assistant","content":"Spain borders both. Its capital is Madrid, with about 3.3 million people."},`
	ctx, err := ordered.ParseJSON([]byte(`{"messages":[{"role":"system","content":"Answer briefly."},` + strings.Repeat(turn, 4) +
		`{"role":"user","content":"Thanks!"}],"add_generation_prompt":true,"bos_token":"<s>","eos_token":"</s>"}`))
	require.NoError(tb, err)
	return ctx.(*ordered.Object)
}

func BenchmarkRender(b *testing.B) {
	sources := map[string]string{"chatml": chatML}
	if root := os.Getenv("INGOT_VECTORS"); root != "" {
		for _, name := range []string{"GLM-4.7-Flash", "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct"} {
			data, err := os.ReadFile(filepath.Join(root, "templates", name+".jinja"))
			require.NoError(b, err)
			sources[name] = string(data)
		}
	}
	ctx := tenMessages(b)
	for name, source := range sources {
		tmpl, err := Parse(name, source)
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(ctx, vectorsNow); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse("chatml", chatML); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseJSON(b *testing.B) {
	data := []byte(`{"messages":[{"role":"user","content":"What is the capital of the country that borders France?"}]}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ordered.ParseJSON(data); err != nil {
			b.Fatal(err)
		}
	}
}
