package model_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// severalInFlight is the CPU backend with several steps in flight. Each step still runs when it is
// submitted. One of the steps can be made to fail.
type severalInFlight struct {
	compute.Backend
	failing int // the step with this number, counted from 1, fails; 0 for none
}

type failingStep struct{ compute.Step }

var errDevice = errors.New("device lost")

func (failingStep) Submit() error { return errDevice }

func (*severalInFlight) MaxInFlight() int { return 5 }

func (s *severalInFlight) Begin(b *compute.Batch) compute.Step {
	step := s.Backend.Begin(b)
	if s.failing--; s.failing == 0 {
		return failingStep{step}
	}
	return step
}

// decoding returns a batch with one row of each of three sequences, at different positions.
func decoding(k int) *compute.Batch {
	b := &compute.Batch{Top: k}
	for i := range int32(3) {
		seq := compute.Seq{Rows: 1}
		for p := range int32(4) {
			seq.Pages = append(seq.Pages, 4*i+(p+i)%4)
		}
		b.Seqs = append(b.Seqs, seq)
		b.Tokens, b.Positions, b.Outputs = append(b.Tokens, 11*i+3), append(b.Positions, 6*i), append(b.Outputs, i)
	}
	return b
}

// TestDecode compares a run of several steps with the same steps one by one. The best tokens and
// their logits must have the same bits, and must be the best of the logits that Forward returns.
func TestDecode(t *testing.T) {
	t.Parallel()
	const steps, k = 5, 7
	for _, name := range modeltest.Micros(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := gguf.Open(modeltest.Micro(t, name))
			require.NoError(t, err)
			reference, err := cpu.New(2)
			require.NoError(t, err)
			be := &severalInFlight{Backend: reference}
			defer func() {
				require.NoError(t, be.Close())
				require.NoError(t, f.Close())
			}()
			m, err := model.Load(be, f, model.Limits{Rows: 8, Outputs: 4, Context: 32, Pages: 12, PageSize: 8})
			require.NoError(t, err)

			one := decoding(k)
			var want [][][]float32
			for range steps {
				logits, err := m.Forward(one)
				require.NoError(t, err)
				want = append(want, copied(m.Best(0), k))
				for i, row := range logits {
					id := modeltest.Best(row)
					require.Equal(t, float32(id), m.Best(0)[i][0])
					require.InDelta(t, modeltest.LogSumExp(row), m.Best(0)[i][2*k], 1e-5)
					one.Tokens[i] = id
					one.Positions[i]++
				}
			}
			for range 2 {
				b := decoding(k)
				b.Draws = make([]compute.Draw, 3)
				prepared := 0
				b.Prepare = func(step int) bool {
					require.Equal(t, prepared, step)
					if prepared++; step > 0 {
						require.Equal(t, want[step-1], copied(m.Best(step-1), k), "step %d", step-1)
					}
					return true
				}
				require.NoError(t, m.Decode(b, steps))
				require.Equal(t, steps, prepared)
				require.Equal(t, want[steps-1], copied(m.Best(steps-1), k))
				for i, row := range m.Drawn(steps - 1) {
					require.Equal(t, want[steps-1][i][0], row[0])
				}
				b.Prepare = func(int) bool { return true }
				be.failing = 3
				require.ErrorIs(t, m.Decode(b, steps), errDevice)
			}
		})
	}
}

func copied(rows [][]float32, k int) (out [][]float32) {
	for _, row := range rows {
		out = append(out, slices.Clone(row[:2*k+1]))
	}
	return out
}

// masked is a backend that records when steps start and when masks are awaited.
type masked struct {
	severalInFlight
	events []string
}

type maskedStep struct {
	compute.Step
	of *masked
}

func (m *masked) Begin(b *compute.Batch) compute.Step {
	return maskedStep{m.severalInFlight.Begin(b), m}
}

func (s maskedStep) Submit() error {
	s.of.events = append(s.of.events, "submit")
	return s.Step.Submit()
}

func (s maskedStep) Run() error {
	s.of.events = append(s.of.events, "run")
	return s.Step.Run()
}

func (s maskedStep) Draw(dst, logits compute.Tensor, draws []compute.Draw) {
	s.of.events = append(s.of.events, "draw")
	s.Step.Draw(dst, logits, draws)
}

func (m *masked) Await(inFlight int) error {
	m.events = append(m.events, "await")
	return m.severalInFlight.Await(inFlight)
}

// The forward pass of each step starts before its masks are awaited, and its tokens are drawn after
// it. The pass of the next step starts before these tokens are read. The run ends when the caller
// ends it.
func TestMasksAreAwaitedDuringTheStep(t *testing.T) {
	t.Parallel()
	f, err := gguf.Open(modeltest.Micro(t, "micro-llama"))
	require.NoError(t, err)
	reference, err := cpu.New(2)
	require.NoError(t, err)
	be := &masked{severalInFlight: severalInFlight{Backend: reference}}
	defer func() {
		require.NoError(t, be.Close())
		require.NoError(t, f.Close())
	}()
	m, err := model.Load(be, f, model.Limits{Rows: 8, Outputs: 4, Context: 32, Pages: 12, PageSize: 8})
	require.NoError(t, err)
	batch := func(last int) *compute.Batch {
		b := decoding(3)
		for i := range b.Tokens {
			b.Draws = append(b.Draws, compute.Draw{Temperature: 1, Mask: make([]uint32, (m.Config().Vocab+31)/32), Seed: uint64(i)})
		}
		b.Prepare = func(step int) bool {
			be.events = append(be.events, "masks")
			for i := range b.Draws {
				if step > 0 {
					require.Equal(t, float32(32*i+step-1), m.Drawn(step - 1)[i][0])
				}
				b.Draws[i].Mask[i] = 1 << step
			}
			return step < last
		}
		return b
	}
	three := []string{"submit", "masks", "draw", "submit", "submit", "await", "masks", "draw", "submit", "submit", "await", "masks", "draw", "run"}
	for _, c := range []struct {
		n, last int
		want    []string
	}{
		{1, 9, []string{"submit", "masks", "draw", "run"}},
		{3, 9, three},
		{5, 2, three},
	} {
		be.events = nil
		require.NoError(t, m.Decode(batch(c.last), c.n))
		require.Equal(t, c.want, be.events)
		for i, row := range m.Drawn(min(c.n-1, c.last)) {
			require.Equal(t, float32(32*i+min(c.n-1, c.last)), row[0])
		}
	}
	for failing := range 3 {
		be.failing = failing + 1
		require.ErrorIs(t, m.Decode(batch(9), 2), errDevice)
	}
}
