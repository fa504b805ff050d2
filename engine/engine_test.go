package engine_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// Models with random weights; see models/README.md.
const (
	microGLM   = "model/testdata/micro-glm.gguf"
	microLlama = "model/testdata/micro-llama.gguf"
)

// families returns the path of each micro model by its family.
func families(tb testing.TB) map[string]string {
	tb.Helper()
	paths := map[string]string{}
	for _, name := range modeltest.Micros(tb) {
		paths[strings.TrimPrefix(name, "micro-")] = "model/testdata/" + name + ".gguf"
	}
	return paths
}

func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	goleak.VerifyTestMain(m)
}

// open opens a model on the CPU backend and closes it at the end of the test.
func open(t testing.TB, path string, opts engine.Options) *engine.Engine {
	t.Helper()
	return openOn(t, path, backend(t), opts)
}

func openOn(t testing.TB, path string, be compute.Backend, opts engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(path, be, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	if b, ok := be.(interface{ open() }); ok {
		b.open()
	}
	return e
}

// wholeSteps is a value of Options.StepTime that is so long that it never limits the rows of a
// step. A test can then count steps.
const wholeSteps = time.Hour

// opened is embedded in test backends that change certain steps. openOn sets it once the engine is
// open. Before that, the engine measures the costs of steps; the test backends do not change those
// steps.
type opened struct{ is atomic.Bool }

func (o *opened) open() { o.is.Store(true) }

func backend(t testing.TB) *cpu.Backend {
	t.Helper()
	return backendOf(t, 1)
}

func backendOf(t testing.TB, threads int) *cpu.Backend {
	t.Helper()
	be, err := cpu.New(threads)
	require.NoError(t, err)
	return be
}

// generate answers a request, which must succeed.
func generate(t testing.TB, e *engine.Engine, req generation.Request) generation.Completion {
	t.Helper()
	c, err := e.Generate(t.Context(), req)
	require.NoError(t, err)
	return c
}

// generateAll answers requests. All requests are in the engine before the first step ends. The
// engine's Trace must be that of g.
func generateAll(t *testing.T, e *engine.Engine, g *gate, reqs []generation.Request) []generation.Completion {
	t.Helper()
	defer g.open()
	out := make([]generation.Completion, len(reqs))
	errs := make([]error, len(reqs))
	var sequences int
	var returned atomic.Int64 // number of sequences whose requests returned without a step
	var wg sync.WaitGroup
	for i, r := range reqs {
		n := max(r.N, 1)
		if r.PromptOnly {
			n = 1
		}
		sequences += n
		wg.Go(func() {
			out[i], errs[i] = e.Generate(t.Context(), r)
			returned.Add(int64(n))
		})
	}
	waitFor(t, func() bool {
		s := e.Snapshot()
		return s.Running+s.Waiting+int(returned.Load()) >= sequences
	})
	g.open()
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return out
}

func waitFor(t testing.TB, done func() bool) {
	t.Helper()
	require.Eventually(t, done, 30*time.Second, time.Millisecond)
}

// gate stops an engine in its first step until open is called.
type gate struct {
	once  sync.Once
	pass  chan struct{}
	aside atomic.Bool // if true, the gate does not stop steps
}

func newGate() *gate { return &gate{pass: make(chan struct{})} }

func (g *gate) trace(compute.Checkpoint) {
	if !g.aside.Load() {
		<-g.pass
	}
}

func (g *gate) open() { g.once.Do(func() { close(g.pass) }) }

// expectShort lets an idle engine give many answers of one token, so that it expects short answers.
// The engine then admits more sequences than fit into its pages. g is the gate that the engine's
// Trace calls; nil if there is none.
func expectShort(t testing.TB, e *engine.Engine, g *gate) {
	t.Helper()
	if g != nil {
		g.aside.Store(true)
		defer g.aside.Store(false)
	}
	all := make([]int32, e.Info().Vocab)
	for i := range all {
		all[i] = int32(i)
	}
	for range 30 {
		c := generate(t, e, generation.Request{Tokens: []int32{1}, MaxTokens: 2, StopIDs: all})
		require.Equal(t, generation.FinishStop, c.Choices[0].FinishReason)
	}
}

// randomTokens returns n ids of the micro models' vocabulary, without control tokens.
func randomTokens(seed uint64, n int) []int32 {
	r := rand.New(rand.NewPCG(seed, 0))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(2000)
	}
	return ids
}

// force makes a request generate the given distinct tokens in order, and then other tokens. The
// bias of each token is higher than those of the tokens after it. Once a token is generated, the
// presence penalty cancels its bias.
func force(req generation.Request, ids ...int32) generation.Request {
	req.Sampling = generation.Sampling{PresencePenalty: 1e6, LogitBias: map[int32]float64{}}
	for i, id := range ids {
		req.Sampling.LogitBias[id] = 9e5 - 1e4*float64(i)
	}
	return req
}

// ids returns the ids of tokens by their texts. A byte of 0x80 or higher is written as this byte.
func ids(t testing.TB, e *engine.Engine, pieces ...string) []int32 {
	t.Helper()
	var out []int32
	for _, p := range pieces {
		found := int32(-1)
		for id := range int32(e.Info().Vocab) {
			if string(e.Tokenizer().Bytes(id)) == p {
				found = id
				break
			}
		}
		require.NotEqual(t, int32(-1), found, "no token %q", p)
		out = append(out, found)
	}
	return out
}

// rewrite copies a model with changed metadata and returns the path of the copy.
func rewrite(t testing.TB, path string, change func(m *gguf.Metadata) *gguf.Metadata) string {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	to := filepath.Join(t.TempDir(), "model.gguf")
	out, err := os.Create(to)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(out, change(f.Meta()), f.Tensors()))
	require.NoError(t, out.Close())
	return to
}
