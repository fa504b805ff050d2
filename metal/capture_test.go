package metal_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// recorder is an emulator that records the order of submissions and capture calls. The capture
// calls do nothing else.
type recorder struct {
	*emulator.Device
	events  []string
	refused error
}

func (r *recorder) StartCapture(path string) error {
	r.events = append(r.events, "start "+path)
	return r.refused
}

func (r *recorder) StopCapture() error {
	r.events = append(r.events, "stop")
	return nil
}

func (r *recorder) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	r.events = append(r.events, "submit")
	return r.Device.Submit(work)
}

// captured runs steps on a backend whose device captures two submissions, beginning with the
// second, and returns the recorded calls.
func captured(t *testing.T, steps int, refused error) ([]string, error) {
	t.Helper()
	dev, err := emulator.Open(emulator.Options{})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("captures are not tested: %v", err)
	}
	require.NoError(t, err)
	r := &recorder{Device: dev, refused: refused}
	capture := metal.NewCapture(r, "a.gputrace", 2)
	be, err := metal.New(capture, metal.Options{})
	require.NoError(t, err)
	x, err := be.Buffer(1, 32)
	require.NoError(t, err)
	gain, err := be.Weight(gguf.Tensor{Name: "gain", Type: gguf.TypeF32, Shape: []int{32}, Data: make([]byte, 128)})
	require.NoError(t, err)
	r.events = nil
	for i := range steps {
		if i == 1 {
			capture.Begin()
		}
		s := be.Begin(&compute.Batch{Tokens: []int32{0}, Positions: []int32{0}, Seqs: []compute.Seq{{Rows: 1, Pages: []int32{0}}}})
		s.RMSNorm(x, x, gain, 1e-5)
		require.NoError(t, s.Run(), fmt.Sprint("step ", i))
	}
	err = be.Close()
	return r.events, err
}

func TestCapture(t *testing.T) {
	for _, c := range []struct {
		steps   int
		refused error
		want    []string
	}{
		{5, nil, []string{"submit", "start a.gputrace", "submit", "submit", "stop", "submit", "submit"}},
		{2, nil, []string{"submit", "start a.gputrace", "submit", "stop"}}, // ended by Close
		{1, nil, []string{"submit"}},
		{4, errors.New("no captures here"), []string{"submit", "start a.gputrace", "submit", "submit", "submit"}},
	} {
		events, err := captured(t, c.steps, c.refused)
		require.ErrorIs(t, err, c.refused)
		require.Equal(t, c.want, events)
	}
}
