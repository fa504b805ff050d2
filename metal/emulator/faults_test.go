package emulator_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// TestFaults runs kernels with one mistake each and checks that the error describes the mistake.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		kernel string
		mode   metal.Mode
		want   string
	}{
		{"past_the_end", metal.Debug, "uses bytes 512 to 516 of 512 bytes of memory"},
		{"before_the_start", metal.Debug, "uses bytes -4 to 0"},
		{"past_shared", metal.Debug, "uses bytes 256 to 260 of 256 bytes"},
		{"past_shared", metal.Release, "a write past the 256 bytes of threadgroup memory"},
		{"misaligned", metal.Debug, "as a value aligned to 4"},
		{"barrier_for_some", metal.Release, "a barrier at faults.metal:"},
		{"two_barriers", metal.Release, "wait at different barriers"},
		{"diverging_lanes", metal.Release, "diverges"},
		{"returned_lanes", metal.Release, "diverges"},
		{"reverse_without_barrier", metal.Debug, "of threadgroup memory without a barrier in between"},
		{"pass_on_without_barrier", metal.Debug, "threads 31 and 32 use byte 124 of threadgroup memory without a barrier in between"},
		{"neighbour_after_shuffle", metal.Debug, "threads 31 and 0 use byte 124 of threadgroup memory without a barrier in between"},
		{"neighbour_after_device_barrier", metal.Debug, "threads 31 and 0 use byte 124 of threadgroup memory without a barrier in between"},
		{"overwritten_after_read", metal.Debug, "of threadgroup memory without a barrier in between"},
	} {
		t.Run(c.kernel, func(t *testing.T) {
			b := newBench(t, emulator.Options{}, c.mode, "faults.metal", c.kernel, 128)
			err := b.run(t, 2, 64, 256)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "kernel "+c.kernel)
			t.Log(err)
		})
	}
}

// TestBarriersOrderMemory checks that no race is reported, in any order of threads, for kernels
// with sufficient barriers.
func TestBarriersOrderMemory(t *testing.T) {
	for _, kernel := range []string{"reverse", "neighbour_after_barrier"} {
		for seed := range uint32(4) {
			b := newBench(t, emulator.Options{Seed: seed}, metal.Debug, "faults.metal", kernel, 128)
			require.NoError(t, b.run(t, 2, 64, 256))
		}
	}
}

// TestDeviceGoesOnAfterFault checks that a correct kernel runs on the same fibres after a faulty
// one.
func TestDeviceGoesOnAfterFault(t *testing.T) {
	b := newBench(t, emulator.Options{}, metal.Release, "faults.metal", "diverging_lanes", 128)
	require.Error(t, b.run(t, 4, 64, 256))
	var err error
	b.pipeline, err = b.dev.Pipeline(b.library, "reverse", nil)
	require.NoError(t, err)
	require.NoError(t, b.run(t, 2, 64, 256))
	require.Equal(t, float32(63), b.floats()[0])
}

// TestConcurrentDevices runs the same kernels on several devices at once and checks that their
// memory is separate.
func TestConcurrentDevices(t *testing.T) {
	const groups = 64
	var all errgroup.Group
	for range 3 {
		b := newBench(t, emulator.Options{Workers: 2}, metal.Release, "faults.metal", "reverse", 64*groups)
		all.Go(func() error {
			for range 101 { // an odd number of reversals
				ticket, err := b.submit(groups, 64, 256)
				if err != nil {
					return err
				}
				if _, err := b.dev.Wait(ticket); err != nil {
					return err
				}
			}
			for i, v := range b.floats() {
				if want := float32(i/64*64 + 63 - i%64); v != want {
					return fmt.Errorf("value %d is %g, not %g", i, v, want)
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
}

// TestPoison checks that threadgroup memory contains NaN before a kernel writes to it.
func TestPoison(t *testing.T) {
	b := newBench(t, emulator.Options{}, metal.Release, "faults.metal", "unwritten", 128)
	require.NoError(t, b.run(t, 2, 64, 256))
	for _, v := range b.floats() {
		require.True(t, math.IsNaN(float64(v)))
	}
}

// TestShuffleShowsMissingBarrier runs a kernel that is correct only in one order of threads.
// Shuffled orders must give wrong results. With a barrier, the same kernel must be correct for all
// seeds.
func TestShuffleShowsMissingBarrier(t *testing.T) {
	wrong := func(kernel string, seed uint32) int {
		b := newBench(t, emulator.Options{Seed: seed}, metal.Release, "faults.metal", kernel, 128)
		require.NoError(t, b.run(t, 2, 64, 256))
		n := 0
		for i, v := range b.floats() {
			if want := float32(i/64*64 + 63 - i%64); v != want {
				n++
			}
		}
		return n
	}
	caught := 0
	for seed := range uint32(8) {
		require.Zero(t, wrong("reverse", seed))
		require.NotZero(t, wrong("reverse_without_barrier", seed))
		if wrong("pass_on_without_barrier", seed) > 0 {
			caught++
		}
	}
	require.GreaterOrEqual(t, caught, 6, "number of seeds, of 8, that show a race between simdgroups")
}

// TestShuffledDispatches submits two dispatches of which the second depends on the first. With a
// barrier, the result must be correct in every run; without one, it must be wrong in some runs.
func TestShuffledDispatches(t *testing.T) {
	for _, barrier := range []bool{true, false} {
		wrong := 0
		for seed := range uint32(8) {
			b := newBench(t, emulator.Options{Seed: seed + 1}, metal.Release, "faults.metal", "add_one", 64)
			double, err := b.dev.Pipeline(b.library, "double_it", nil)
			require.NoError(t, err)
			d := metal.Dispatch{
				Pipeline: b.pipeline, Buffers: []metal.Binding{{Buffer: b.buffer}}, Args: []byte{64, 0, 0, 0},
				Groups: [3]int{1, 1, 1}, Threads: [3]int{64, 1, 1},
			}
			second := d
			second.Pipeline, second.Barrier = double, barrier
			ticket, err := b.dev.Submit([]metal.Dispatch{d, second})
			require.NoError(t, err)
			_, err = b.dev.Wait(ticket)
			require.NoError(t, err)
			if b.floats()[0] != 2 {
				wrong++
			}
		}
		require.Equal(t, barrier, wrong == 0, "%d of 8 runs are wrong", wrong)
	}
}
