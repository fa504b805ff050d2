package trained_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/models/trained"
)

// rewritten writes a copy of a model whose matrices have another type.
func rewritten(t *testing.T, path string, to gguf.Type) string {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var tensors []gguf.Tensor
	for _, tensor := range f.Tensors() {
		if len(tensor.Shape) > 1 {
			rowBytes, err := to.RowBytes(tensor.Shape[0])
			require.NoError(t, err)
			data := make([]byte, rowBytes*(tensor.Elements()/tensor.Shape[0]))
			require.NoError(t, gguf.Quantise(data, to, tensor.Values()))
			tensor.Type, tensor.Data = to, data
		}
		tensors = append(tensors, tensor)
	}
	name := filepath.Join(t.TempDir(), to.String()+".gguf")
	out, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(out, f.Meta(), tensors))
	require.NoError(t, out.Close())
	return name
}

// TestDraftModel drafts with SmolLM2 in Q4_0 for the same model in F16. It logs how many drafted
// tokens are accepted, and what they gain. No answer changes.
func TestDraftModel(t *testing.T) {
	nightly(t)
	path := find(t, trained.SmolLM2)
	large, small := rewritten(t, path, gguf.TypeF16), rewritten(t, path, gguf.TypeQ40)
	answers := readAnswers(t, trained.SmolLM2)
	for _, n := range []int{1, 16} {
		plain := open(t, large, engine.Options{Context: 512, MaxSequences: n, Draft: engine.DraftOff})
		drafted := open(t, large, engine.Options{Context: 512, MaxSequences: n, Draft: engine.DraftModel, DraftModel: small})
		generate(t, drafted, answers) // measures acceptance
		start := time.Now()
		want := generate(t, plain, answers)
		without := time.Since(start)
		before := drafted.Snapshot()
		start = time.Now()
		require.Equal(t, want, generate(t, drafted, answers))
		with := time.Since(start)
		after := drafted.Snapshot()
		t.Logf("%d at once: %d of %d drafted tokens accepted; %.2f s without drafts, %.2f s with", n,
			after.AcceptedTokens-before.AcceptedTokens, after.DraftTokens-before.DraftTokens, without.Seconds(), with.Seconds())
	}
}
