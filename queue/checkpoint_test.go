package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/queue"
)

func drawCheckpoint(t *rapid.T) *queue.Checkpoint {
	ids := rapid.SliceOfN(rapid.Int32(), 0, 40)
	return &queue.Checkpoint{
		Fingerprint: rapid.String().Draw(t, "fingerprint"),
		Prompts: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) generation.Progress {
			p := generation.Progress{Prompt: rapid.Uint64().Draw(t, "prompt")}
			for range rapid.IntRange(0, 4).Draw(t, "choices") {
				p.Choices = append(p.Choices, ids.Draw(t, "ids"))
			}
			return p
		}), 0, 4).Draw(t, "prompts"),
	}
}

func TestACheckpointIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawCheckpoint(t)
		got, err := queue.DecodeCheckpoint(want.Encode())
		require.NoError(t, err)
		require.Equal(t, want.Fingerprint, got.Fingerprint)
		require.Equal(t, want.Tokens(), got.Tokens())
		require.Len(t, got.Prompts, len(want.Prompts))
		for i, p := range want.Prompts {
			require.Equal(t, p, got.Prompts[i])
			require.Equal(t, len(p.Choices) > 0, got.Resume(i) != nil)
		}
		require.Nil(t, got.Resume(len(want.Prompts)))
	})
	require.Nil(t, (*queue.Checkpoint)(nil).Resume(0))
}

// Decoding a damaged checkpoint returns an error. It does not panic, and does not allocate much
// more than the checkpoint's size.
func TestADamagedCheckpoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawCheckpoint(t).Encode()
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		_, err := queue.DecodeCheckpoint(b[:cut])
		require.Error(t, err, "cut")
		_, err = queue.DecodeCheckpoint(append(b, 0))
		require.Error(t, err, "longer")
		b[cut] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if c, err := queue.DecodeCheckpoint(b); err == nil {
			require.LessOrEqual(t, c.Tokens(), len(b))
		}
	})
	_, err := queue.DecodeCheckpoint([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0x7f})
	require.Error(t, err, "more prompts than bytes")
}

// Progress that is too large is not stored.
func TestALargeCheckpointIsNotStored(t *testing.T) {
	t.Parallel()
	of := func(n int, id int32) *queue.Checkpoint {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = id
		}
		return &queue.Checkpoint{Prompts: []generation.Progress{{Choices: [][]int32{ids}}}}
	}
	require.NotNil(t, of(queue.MaxCheckpoint/2, 5).Encode())
	require.Nil(t, of(queue.MaxCheckpoint/2, 1<<20).Encode())
	require.Nil(t, of(queue.MaxCheckpoint+1, 5).Encode())
	const short = queue.MaxCheckpoint - 100
	rest := len(of(short, 5).Encode()) - short // bytes that are not tokens
	require.Len(t, of(queue.MaxCheckpoint-rest, 5).Encode(), queue.MaxCheckpoint)
	require.Nil(t, of(queue.MaxCheckpoint-rest+1, 5).Encode())
}
