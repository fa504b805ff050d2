package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
)

// BenchmarkDraw measures the time to choose the token of a row on one thread, with kinds of logits
// and draws, and with Top for comparison.
func BenchmarkDraw(b *testing.B) {
	const vocab = 151_936
	be, err := cpu.New(1)
	require.NoError(b, err)
	logits, err := be.Buffer(1, vocab)
	require.NoError(b, err)
	dst, err := be.Buffer(1, compute.DrawCols)
	require.NoError(b, err)
	r := rand.New(rand.NewPCG(1, 2))
	for _, kind := range []string{"flat", "steep", "trained", "sure"} {
		ranks := r.Perm(vocab)
		for i := range be.Floats(logits)[0] {
			l := r.NormFloat64()
			switch kind {
			case "steep":
				l *= 3
			case "trained": // probabilities like those of words in texts
				l = -1.4 * math.Log(float64(1+ranks[i]))
			case "sure":
				l = -4 * math.Log(float64(1+ranks[i]))
			}
			be.Floats(logits)[0][i] = float32(l)
		}
		for _, c := range []struct {
			name string
			draw compute.Draw
		}{
			{"greedy", compute.Draw{}},
			{"default", compute.Draw{Temperature: 1}},
			{"min_p", compute.Draw{Temperature: 1, MinP: 0.05}},
			{"top_p", compute.Draw{Temperature: 1, TopP: 0.95}},
			{"top_k", compute.Draw{Temperature: 1, TopK: 40}},
		} {
			b.Run(kind+"/"+c.name, func(b *testing.B) {
				draws := []compute.Draw{c.draw}
				for b.Loop() {
					draws[0].Position++
					s := be.Begin(&compute.Batch{})
					s.Draw(dst, logits, draws)
				}
			})
		}
		b.Run(kind+"/top 1", func(b *testing.B) {
			for b.Loop() {
				s := be.Begin(&compute.Batch{})
				s.Top(dst, logits, 1)
			}
		})
	}
	require.NoError(b, be.Close())
}

// BenchmarkDrawRows measures the time to choose the tokens of 32 rows, whose logits are not in a
// core's own cache, on one thread and on two.
func BenchmarkDrawRows(b *testing.B) {
	const rows, vocab = 32, 151_936
	for _, threads := range []int{1, 2} {
		be, err := cpu.New(threads)
		require.NoError(b, err)
		logits, err := be.Buffer(rows, vocab)
		require.NoError(b, err)
		dst, err := be.Buffer(rows, compute.DrawCols)
		require.NoError(b, err)
		r := rand.New(rand.NewPCG(1, 2))
		for _, row := range be.Floats(logits) {
			for i := range row {
				row[i] = float32(r.NormFloat64())
			}
		}
		for _, c := range []struct {
			name string
			draw compute.Draw
		}{{"greedy", compute.Draw{}}, {"default", compute.Draw{Temperature: 1}}, {"top_p", compute.Draw{Temperature: 1, TopP: 0.9}}} {
			b.Run(fmt.Sprintf("%d threads/%s", threads, c.name), func(b *testing.B) {
				draws := slices.Repeat([]compute.Draw{c.draw}, rows)
				for b.Loop() {
					for i := range draws {
						draws[i].Seed = uint64(i)
						draws[i].Position++
					}
					be.Begin(&compute.Batch{}).Draw(dst, logits, draws)
				}
			})
		}
		require.NoError(b, be.Close())
	}
}
