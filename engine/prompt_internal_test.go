package engine

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
)

func openMicro(t *testing.T) *Engine {
	t.Helper()
	be, err := cpu.New(1)
	require.NoError(t, err)
	e, err := Open("model/testdata/micro-llama.gguf", be, Options{Context: 64, Draft: DraftOff})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// A prompt that is too long for the context is refused before it is tokenised. Tokenising would
// take many times its memory.
func TestAHugePromptIsRefusedByItsBytes(t *testing.T) { // not parallel: the test measures the memory of the whole process
	e := openMicro(t)
	text := strings.Repeat("a", 4<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := e.Generate(t.Context(), generation.Request{Text: text})
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, generation.ErrBadRequest)
	require.ErrorContains(t, err, "the prompt has 4194304 bytes, which are at least ")
	require.ErrorContains(t, err, " tokens; the context holds 64")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(text)/4))
}

// A prompt that fits into the context is never refused because of its number of bytes.
func TestALongPromptThatFits(t *testing.T) {
	t.Parallel()
	e := openMicro(t)
	longest := ""
	for id := range int32(e.files.config.Vocab) {
		if b := e.Tokenizer().Bytes(id); len(b) > len(longest) {
			longest = string(b)
		}
	}
	text := strings.Repeat(longest, 60)
	c, err := e.Generate(t.Context(), generation.Request{Text: text, MaxTokens: 1})
	require.NoError(t, err)
	require.LessOrEqual(t, len(c.PromptTokens), 63)
}

// asked is a context that closes done when Done is first called.
type asked struct {
	context.Context
	once sync.Once
	done chan struct{}
}

func (a *asked) Done() <-chan struct{} {
	a.once.Do(func() { close(a.done) })
	return a.Context.Done()
}

// Only a few large prompts are tokenised at once. A large prompt that waits can be cancelled. Small
// prompts do not wait.
func TestLargePromptsWaitForEachOther(t *testing.T) {
	t.Parallel()
	e := openMicro(t)
	e.fit.Context = 1 << 20 // large enough that the text is not refused
	for range maxLargeTexts {
		e.large <- struct{}{} // as if other prompts were being tokenised
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting, ended := &asked{Context: ctx, done: make(chan struct{})}, make(chan error)
	go func() {
		_, err := e.Generate(waiting, generation.Request{Text: strings.Repeat("a", largeText)})
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("the large prompt did not wait for the others: %v", err)
	case <-waiting.done:
	}
	_, err := e.Generate(t.Context(), generation.Request{Text: "small", MaxTokens: 1})
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	<-e.large
	_, err = e.Generate(t.Context(), generation.Request{Text: strings.Repeat("a", largeText)})
	require.ErrorContains(t, err, "tokens; the context holds 64")
	require.Len(t, e.large, maxLargeTexts-1, "the large prompt no longer counts as being tokenised")
}
